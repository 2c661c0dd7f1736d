#!/usr/bin/env python3
"""Makes tiny checkpoints of LLaMA and its families with the logits and greedy tokens that transformers computes in fp32.

    pip install torch transformers safetensors numpy
    scripts/make_golden.py [tests/data/golden [NAME ...]]

Each folder holds config.json, the weights (model.safetensors or shards) and golden.safetensors:
    prompts [batch, longest] int32, -1 after the end; tokens [batch, steps + 1] int32, greedy;
    logits [batch, steps + 1, vocab] fp32: at the prompt's last token, then at each greedy token.
Prompts run one by one, so no padding enters the reference. LongRoPE has two files: golden.safetensors within the
original length, and golden_long.safetensors beyond it.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

STEPS = 8
PROMPT_LENGTHS = [3, 17, 60]  # the longest crosses the context bucket of 64

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
SHARED = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
              max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
# As LLAMA3, but small: a family needs few kB.
SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48)
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
# Of 16 elements of a head, 8 pairs.
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1 + i / 20 for i in range(8)],
            "long_factor": [1 + i * i / 4 for i in range(8)]}
LONGROPE_LENGTH = 40
# name: (dtype of the weights, bytes per shard or None, config)
CASES = {
    "mha": (torch.float32, None, dict(num_attention_heads=2, num_key_value_heads=2, head_dim=64)),
    "gqa": (torch.bfloat16, None, dict(num_attention_heads=4, num_key_value_heads=2, head_dim=128)),
    "llama3_rope": (torch.bfloat16, None, dict(num_attention_heads=4, num_key_value_heads=1, head_dim=64,
                                               rope_parameters=LLAMA3)),
    "tied": (torch.float16, 120_000, dict(num_attention_heads=2, num_key_value_heads=1, head_dim=64,
                                          tie_word_embeddings=True, attention_bias=True)),
    # Seven and five query heads per KV head are those of 28/4 and 40/8.
    "mistral": (torch.bfloat16, None, SMALL | dict(model_type="mistral", num_attention_heads=14, num_key_value_heads=2,
                                                   head_dim=16, sliding_window=24, tie_word_embeddings=False)),
    "qwen2": (torch.bfloat16, None, SMALL | dict(model_type="qwen2", num_attention_heads=7, num_key_value_heads=1,
                                                 head_dim=16, use_sliding_window=False, tie_word_embeddings=True)),
    "qwen2_yarn": (torch.bfloat16, None, SMALL | dict(model_type="qwen2", num_attention_heads=10,
                                                      num_key_value_heads=2, head_dim=16, rope_parameters=YARN,
                                                      tie_word_embeddings=False)),
    "qwen3": (torch.bfloat16, None, SMALL | dict(model_type="qwen3", num_attention_heads=5, num_key_value_heads=1,
                                                 head_dim=64, tie_word_embeddings=True)),
    "phi3": (torch.bfloat16, None, SMALL | dict(model_type="phi3", hidden_size=64, num_attention_heads=4,
                                                num_key_value_heads=2, rope_parameters=LONGROPE,
                                                original_max_position_embeddings=LONGROPE_LENGTH, pad_token_id=0)),
    "smollm3": (torch.bfloat16, None, SMALL | dict(model_type="smollm3", hidden_size=64, num_attention_heads=4,
                                                   num_key_value_heads=1, no_rope_layer_interval=2,
                                                   attention_bias=True, mlp_bias=True, pad_token_id=0)),
    "granite": (torch.bfloat16, None, SMALL | dict(model_type="granite", hidden_size=64, num_attention_heads=4,
                                                   num_key_value_heads=2, tie_word_embeddings=True,
                                                   embedding_multiplier=12.0, residual_multiplier=0.22,
                                                   attention_multiplier=0.1, logits_scaling=8.0)),
}


def randomise(model, dtype, generator):
    """Weights that keep activations near 1. All fit in bf16, so that a run in any dtype has the same ones."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if "norm" in name:
            value = 1 + 0.1 * noise
        elif weight.dim() == 1:
            value = 0.1 * noise
        else:
            gain = 0.7 if "q_proj" in name or "k_proj" in name else 1.0
            value = gain * noise / weight.shape[1] ** 0.5
        weight.data = value.bfloat16().to(dtype).float()


@torch.no_grad()
def greedy(model, prompt, steps, with_cache):
    """Tokens and logits. LongRoPE needs a run without a KV cache: all keys have the factors of the last length."""
    ids, cache, tokens, logits = torch.tensor([prompt], device=model.device), None, [], []
    for _ in range(steps + 1):
        out = model(ids, past_key_values=cache, use_cache=with_cache)
        logits.append(out.logits[0, -1].float().cpu())
        tokens.append(int(logits[-1].argmax()))
        last = torch.tensor([tokens[-1:]], device=model.device)
        cache, ids = (out.past_key_values, last) if with_cache else (None, torch.cat([ids, last], 1))
    return tokens, torch.stack(logits)


def save_checkpoint(model, folder, dtype, shard_bytes):
    names = dict(model.named_parameters())  # without the tied lm_head
    weights = {name: w.data.to(dtype).contiguous() for name, w in names.items()}
    config = model.config.to_dict()
    config["dtype"] = str(dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True, default=str) + "\n")
    if shard_bytes is None:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return
    shards, size = [{}], 0
    for name, weight in weights.items():
        if size and size + weight.nbytes > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = weight
        size += weight.nbytes
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map |= {name: file for name in shard}
    index = {"metadata": {"total_size": sum(w.nbytes for w in weights.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def random_model(config, dtype, generator):
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**({"model_type": "llama"} | config)))
    model.config._attn_implementation = "eager"
    model = model.float().eval()
    randomise(model, dtype, generator)
    return model


def save_golden(model, file, lengths, generator, steps=STEPS, with_cache=False):
    """Random prompts of these lengths, and what the model makes of them. Returns the tokens."""
    prompts = torch.full((len(lengths), max(lengths)), -1, dtype=torch.int32)
    for row, length in zip(prompts, lengths):
        row[:length] = torch.randint(3, model.config.vocab_size, (length,), generator=generator)
    tokens, logits = zip(*(greedy(model, row[:n].tolist(), steps, with_cache) for row, n in zip(prompts, lengths)))
    save_file({"prompts": prompts, "tokens": torch.tensor(tokens, dtype=torch.int32),
               "logits": torch.stack(logits).contiguous()}, file)
    return tokens


def make(name, folder, seed):
    dtype, shard_bytes, shape = CASES[name]
    generator = torch.Generator().manual_seed(seed)
    model = random_model(SHARED | shape, dtype, generator)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    save_checkpoint(model, folder, dtype, shard_bytes)
    is_longrope = shape.get("rope_parameters") is LONGROPE
    lengths = [n for n in PROMPT_LENGTHS if n + STEPS <= LONGROPE_LENGTH] if is_longrope else PROMPT_LENGTHS
    tokens = save_golden(model, folder / "golden.safetensors", lengths, generator)
    if is_longrope:
        save_golden(model, folder / "golden_long.safetensors", [LONGROPE_LENGTH + 5, 60], generator)
    return tokens


def make_all(default_root, cases, make, most_bytes=3_000_000):
    """The main() of a maker: makes the named folders, or all."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else default_root).resolve()
    for seed, name in enumerate(cases, 1):
        if name in (sys.argv[2:] or cases):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True)
            tokens = make(name, folder, seed)
            size = sum(f.stat().st_size for f in folder.iterdir())
            print(f"{folder}: {size / 1e3:.0f} kB, first tokens {[t[:4] for t in tokens]}")
    total = sum(f.stat().st_size for f in root.rglob("*") if f.is_file())
    if total >= most_bytes:
        sys.exit(f"{total / 1e6:.1f} MB; the goldens must stay under {most_bytes / 1e6} MB")


if __name__ == "__main__":
    make_all("tests/data/golden", CASES, make)
