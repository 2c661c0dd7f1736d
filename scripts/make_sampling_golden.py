#!/usr/bin/env python3
"""Makes the probabilities that the logits processors of transformers leave, and the greedy tokens of a golden model
with a repetition penalty.

    pip install torch transformers safetensors numpy
    scripts/make_sampling_golden.py [tests/data/golden/gqa] [tests/data/sampling/golden.safetensors]

    logits [cases, vocab] fp32; ids [cases, longest] int32, -1 after the end: the tokens of the sequence;
    settings [cases, 5] fp32: top_k, p, min_p, repetition_penalty, temperature;
    probabilities [cases, vocab] fp32: after all processors;
    prompts [batch, longest] int32, -1 after the end; tokens [batch, steps + 1] int32, greedy with PENALTY, by the
    model's checkpoint in fp32.
"""
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig, LlamaForCausalLM, LogitsProcessorList

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


def probabilities(model, logits, ids, case):
    """What the processors of generate() leave, in its order."""
    k, p, min_p, penalty, temperature = case
    config = GenerationConfig(do_sample=True, top_k=k, top_p=p, min_p=min_p or None, repetition_penalty=penalty,
                              temperature=temperature)
    held = torch.tensor(ids)[None].long()
    chain = model._get_logits_processor(generation_config=config, input_ids_seq_length=held.shape[1],
                                        encoder_input_ids=held, prefix_allowed_tokens_fn=None,
                                        logits_processor=LogitsProcessorList(), device="cpu")
    return chain(held, torch.tensor(logits)[None]).softmax(-1)[0]


def greedy(model, prompt):
    made = model.generate(prompt[None].long(), do_sample=False, repetition_penalty=PENALTY, max_new_tokens=STEPS + 1)
    return made[0, len(prompt):].int()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/golden/gqa")
    path = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "tests/data/sampling/golden.safetensors")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None  # generates all steps
    random = np.random.default_rng(1)
    logits = (4 * random.standard_normal((len(CASES), VOCAB))).astype(np.float32)
    ids = np.full((len(CASES), 24), -1, np.int32)
    for i in range(len(CASES)):
        # The likeliest tokens are held, else a penalty changes little; one of them twice.
        top = np.argsort(-logits[i])
        held = np.concatenate([top[:8], top[:1], random.integers(0, VOCAB, 4 + i)])
        random.shuffle(held)
        ids[i, :len(held)] = held
    left = torch.stack([probabilities(model, logits[i], ids[i][ids[i] >= 0], case) for i, case in enumerate(CASES)])
    prompts = load_file(folder / "golden.safetensors")["prompts"]
    tokens = torch.stack([greedy(model, row[row >= 0]) for row in prompts])
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"logits": torch.tensor(logits), "ids": torch.tensor(ids), "settings": torch.tensor(CASES),
               "probabilities": left, "prompts": prompts, "tokens": tokens}, path)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, first tokens {tokens[:, :4].tolist()}")


if __name__ == "__main__":
    main()
