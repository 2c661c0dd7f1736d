#!/usr/bin/env python3
"""Makes tiny GGUF files with the logits and greedy tokens that transformers computes in fp32 for their weights, as gguf
dequantizes them.

    pip install torch transformers safetensors numpy gguf
    scripts/make_gguf_golden.py [tests/data/gguf [NAME ...]]

Each folder holds model.gguf and golden.safetensors (make_golden.py). Rows of q and k of PAIRED architectures are in the
order of llama.cpp's convert_hf_to_gguf.py. Weights of Q4_K, Q5_K and Q6_K are random blocks: gguf only reads these
types.
"""
import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T

import make_golden

LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_qkv": "self_attn.qkv_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
SMALL = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, max_position_embeddings=256,
             rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=32)
# name: (architecture, config, the type of a matrix by the end of its name, the type of all others)
CASES = {
    "llama_q4_0": ("llama", SMALL | HEADS | dict(rope_parameters=make_golden.LLAMA3),
                   {"1.attn_v": T.Q8_0, "0.ffn_up": T.F16, "1.ffn_up": T.Q8_0, "output": T.F16}, T.Q4_0),
    "llama_q4_k": ("llama", SMALL | HEADS | dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1),
                   {"attn_v": T.Q6_K, "ffn_down": T.Q6_K, "attn_output": T.F16, "token_embd": T.Q6_K, "output": T.Q6_K},
                   T.Q4_K),
    "llama_q5_k": ("llama", SMALL | HEADS | dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1),
                   {"attn_q": T.Q4_K, "attn_k": T.Q4_K, "ffn_gate": T.Q4_K, "attn_output": T.Q8_0, "token_embd": T.Q4_K,
                    "output": T.Q6_K},
                   T.Q5_K),
    "qwen2_q8_0": ("qwen2", SMALL | HEADS | dict(head_dim=16, use_sliding_window=False, tie_word_embeddings=True),
                   {"0.attn_k": T.Q5_0, "1.ffn_down": T.Q5_0}, T.Q8_0),
    "qwen3_f16": ("qwen3", SMALL | HEADS | dict(head_dim=64), {"ffn_up": T.F32, "output": T.BF16}, T.F16),
    "phi3_q4_0": ("phi3", SMALL | dict(num_attention_heads=4, num_key_value_heads=2, pad_token_id=0,
                                       rope_parameters=make_golden.LONGROPE, original_max_position_embeddings=40),
                  {}, T.Q4_0),
    "smollm3_q4_0": ("smollm3", SMALL | HEADS | dict(num_hidden_layers=4, pad_token_id=0), {}, T.Q4_0),
    "granite_q8_0": ("granite", SMALL | dict(num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=12.0,
                                             residual_multiplier=0.22, attention_multiplier=0.1, logits_scaling=8.0),
                     {}, T.Q8_0),
}
PAIRED = "llama", "smollm3", "granite"


def random_blocks(kind, shape, rng):
    """Bytes of super-blocks whose values are near those of a random matrix of this shape."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // 256, size), dtype=np.uint8)
    scale = shape[-1] ** -0.5
    halves = {T.Q4_K: [(0, scale / 300), (2, scale / 40)], T.Q5_K: [(0, scale / 600), (2, scale / 40)],
              T.Q6_K: [(208, scale / 1500)]}[kind]
    for at, value in halves:
        d = (value * rng.uniform(0.7, 1.3, blocks.shape[:-1])).astype(np.float16)
        blocks[..., at:at + 2] = d[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def in_pairs(rows, head_dim):
    """The order of rows that llama.cpp's interleaved RoPE takes."""
    return rows.reshape(-1, 2, head_dim // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def in_order(rows, head_dim):
    return rows.reshape(-1, head_dim // 2, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def names(architecture, layers):
    for name, module in TOP.items():
        yield name, module
    for i in range(layers):
        for name, module in LAYER.items():
            if architecture == "phi3" and name == "ffn_up":
                module = "mlp.gate_up_proj"
            yield f"blk.{i}.{name}", f"model.layers.{i}.{module}"


def add_metadata(writer, config, architecture):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_token_list([f"token{i}" for i in range(config.vocab_size)])  # an array of texts
    if architecture == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if head_dim := config.to_dict().get("head_dim"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "llama3":  # as convert_hf_to_gguf.py
        freqs = rope["rope_theta"] ** -(torch.arange(0, config.head_dim, 2).float() / config.head_dim).numpy()
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        turns = rope["original_max_position_embeddings"] * freqs / (2 * np.pi)
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32))
    if rope["rope_type"] == "longrope":
        original = config.original_max_position_embeddings
        writer.add_rope_scaling_orig_ctx_len(original)
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(scale) / np.log(original))))
        for name, key in (("short", "short_factor"), ("long", "long_factor")):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[key], np.float32))


def make(name, folder, seed):
    architecture, shape, types, other = CASES[name]
    generator, rng = torch.Generator().manual_seed(99 + seed), np.random.default_rng(99 + seed)
    model = make_golden.random_model(shape | dict(model_type=architecture), torch.float32, generator)
    config, parameters = model.config, dict(model.named_parameters())
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    add_metadata(writer, config, architecture)
    for short, module in names(architecture, config.num_hidden_layers):
        paired = architecture in PAIRED and short.endswith(("attn_q", "attn_k"))
        for suffix in (".weight", ".bias"):
            parameter = parameters.get(module + suffix)
            if parameter is None:
                continue
            values = parameter.data.numpy()
            if values.ndim == 1:
                writer.add_tensor(short + suffix, values)
                continue
            values = in_pairs(values, head_dim) if paired else values
            kind = next((t for end, t in types.items() if short.endswith(end)), other)
            data = (random_blocks(kind, values.shape, rng) if kind in (T.Q4_K, T.Q5_K, T.Q6_K)
                    else gguf.quants.quantize(values, kind))
            writer.add_tensor(short + suffix, data, raw_dtype=kind)
            values = gguf.quants.dequantize(data, kind)
            parameter.data = torch.tensor(in_order(values, head_dim) if paired else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return make_golden.save_golden(model, folder / "golden.safetensors", [3, 30], generator)


if __name__ == "__main__":
    make_golden.make_all("tests/data/gguf", CASES, make)
