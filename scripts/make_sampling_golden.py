#!/usr/bin/env python3
"""Makes the probabilities that the logits processors of transformers leave, by their documented formulas in numpy, and
the greedy tokens of a golden model with a repetition penalty.

    scripts/make_sampling_golden.py [tests/data/golden/gqa] [tests/data/sampling/golden.safetensors]
    scripts/make_sampling_golden.py --transformers    # compares the formulas with transformers, which needs torch

    logits [cases, vocab] fp32; ids [cases, longest] int32, -1 after the end: the tokens of the sequence;
    settings [cases, 5] fp32: top_k, p, min_p, repetition_penalty, temperature;
    probabilities [cases, vocab] fp32: after all processors, in the order in which transformers applies them;
    prompts [batch, longest] int32, -1 after the end; tokens [batch, steps + 1] int32, greedy with PENALTY, by the
    model's checkpoint in fp32. The model in numpy is first compared with the logits that transformers computed.
"""
import json
import pathlib
import struct
import sys

import numpy as np

VOCAB = 257  # not a multiple of the bits of a word
PENALTY = 1.3
STEPS = 24
# top_k, p, min_p, repetition_penalty, temperature
CASES = [
    (50, 1.0, 0.0, 1.0, 1.0),
    (50, 0.9, 0.0, 1.0, 0.8),
    (50, 1.0, 0.05, 1.0, 1.0),
    (50, 1.0, 0.05, 1.0, 2.5),
    (50, 1.0, 0.0, 1.3, 1.0),
    (256, 1.0, 0.0, 0.7, 1.0),
    (50, 0.95, 0.05, 1.1, 0.8),
    (200, 0.8, 0.01, 5.0, 1.5),
    (5, 1.0, 0.3, 1.2, 1.0),
    (50, 1.0, 1.0, 1.2, 1.0),
    (1, 1.0, 0.0, 2.0, 1.0),
]


def load(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": np.float32, "I32": np.int32}[t["dtype"]])
        tensors[name] = values.reshape(t["shape"])
    return tensors


def save(path, tensors):
    header, at = {}, 0
    for name, values in tensors.items():
        dtype = {"float32": "F32", "int32": "I32"}[str(values.dtype)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def penalized(scores, ids, penalty):
    """RepetitionPenaltyLogitsProcessor: each held token once."""
    held, scores = np.unique(ids), scores.astype(np.float32).copy()
    x = scores[held]
    scores[held] = np.where(x < 0, x * np.float32(penalty), x / np.float32(penalty))
    return scores


def probabilities(logits, ids, case):
    """Repetition penalty, temperature, top-k, top-p, min-p: the order of _get_logits_processor()."""
    k, p, min_p, penalty, temperature = case
    x = (penalized(logits, ids, penalty) / np.float32(temperature)).astype(np.float64)
    x[x < np.sort(x)[-k]] = -np.inf
    if p < 1:
        order = np.argsort(x, kind="stable")
        removed = np.cumsum(softmax(x[order])) <= 1 - p
        removed[-1] = False
        x[order[removed]] = -np.inf
    if min_p > 0:
        q = softmax(x)
        x[q < min_p * q.max()] = -np.inf
    return softmax(x).astype(np.float32)


class Llama:
    """The forward pass of a checkpoint without RoPE scaling and biases."""

    def __init__(self, folder):
        self.w = load(folder / "model.safetensors")
        self.c = json.loads((folder / "config.json").read_text())

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * self.w[name]

    def rope(self, x):
        dim = x.shape[-1]
        theta = self.c.get("rope_theta") or self.c["rope_parameters"]["rope_theta"]
        angle = np.arange(x.shape[1])[:, None] / theta ** (np.arange(0, dim, 2) / dim)
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    def last_logits(self, ids):
        c, n = self.c, len(ids)
        heads = lambda y: y.reshape(n, -1, c["head_dim"]).transpose(1, 0, 2)
        x = self.w["model.embed_tokens.weight"][ids].astype(np.float64)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            linear = lambda y, name: y @ self.w[f"{at}{name}.weight"].T.astype(np.float64)
            y = self.norm(x, at + "input_layernorm.weight")
            q, k, v = (heads(linear(y, f"self_attn.{name}_proj")) for name in "qkv")
            group = len(q) // len(k)
            k, v = np.repeat(self.rope(k), group, 0), np.repeat(v, group, 0)
            scores = self.rope(q) @ k.transpose(0, 2, 1) / np.sqrt(c["head_dim"])
            scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
            x = x + linear((softmax(scores) @ v).transpose(1, 0, 2).reshape(n, -1), "self_attn.o_proj")
            y = self.norm(x, at + "post_attention_layernorm.weight")
            gate = linear(y, "mlp.gate_proj")
            x = x + linear(gate / (1 + np.exp(-gate)) * linear(y, "mlp.up_proj"), "mlp.down_proj")
        return self.norm(x[-1], "model.norm.weight") @ self.w["lm_head.weight"].T.astype(np.float64)


def greedy(model, prompt):
    ids = list(prompt)
    for _ in range(STEPS + 1):
        ids.append(int(penalized(model.last_logits(ids), ids, PENALTY).argmax()))
    return ids[len(prompt):]


def check_with_transformers(folder, logits, ids, expected):
    import torch
    from transformers import GenerationConfig, LlamaForCausalLM, LogitsProcessorList
    model = LlamaForCausalLM.from_pretrained(folder)
    for i, (k, p, min_p, penalty, temperature) in enumerate(CASES):
        config = GenerationConfig(do_sample=True, top_k=k, top_p=p, min_p=min_p or None,
                                  repetition_penalty=penalty, temperature=temperature)
        held = torch.tensor(ids[i][ids[i] >= 0])[None].long()
        chain = model._get_logits_processor(generation_config=config, input_ids_seq_length=held.shape[1],
                                            encoder_input_ids=held, prefix_allowed_tokens_fn=None,
                                            logits_processor=LogitsProcessorList(), device="cpu")
        got = chain(held, torch.tensor(logits[i])[None]).softmax(-1)[0].numpy()
        np.testing.assert_allclose(got, expected[i], atol=1e-6, err_msg=str(CASES[i]))
    print("transformers computes the same")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--transformers"]
    folder = pathlib.Path(arguments[0] if arguments else "tests/data/golden/gqa")
    path = pathlib.Path(arguments[1] if len(arguments) > 1 else "tests/data/sampling/golden.safetensors")
    random = np.random.default_rng(1)
    logits = (4 * random.standard_normal((len(CASES), VOCAB))).astype(np.float32)
    ids = np.full((len(CASES), 24), -1, np.int32)
    for i in range(len(CASES)):
        # The likeliest tokens are held, else a penalty changes little; one of them twice.
        top = np.argsort(-logits[i])
        held = np.concatenate([top[:8], top[:1], random.integers(0, VOCAB, 4 + i)])
        random.shuffle(held)
        ids[i, :len(held)] = held
    left = np.stack([probabilities(logits[i], ids[i][ids[i] >= 0], case) for i, case in enumerate(CASES)])
    if "--transformers" in sys.argv:
        check_with_transformers(folder, logits, ids, left)
    model, golden = Llama(folder), load(folder / "golden.safetensors")
    prompts = [[t for t in row.tolist() if t >= 0] for row in golden["prompts"]]
    for prompt, want in zip(prompts, golden["logits"]):
        np.testing.assert_allclose(model.last_logits(prompt), want[0], atol=1e-3)
    tokens = np.array([greedy(model, prompt) for prompt in prompts], np.int32)
    save(path, {"logits": logits, "ids": ids, "settings": np.array(CASES, np.float32), "probabilities": left,
                "prompts": golden["prompts"], "tokens": tokens})
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, first tokens {tokens[:, :4].tolist()}")


if __name__ == "__main__":
    main()
