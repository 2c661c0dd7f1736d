#!/usr/bin/env python3
"""Makes the probabilities that the logits processors of transformers leave, and the greedy tokens with a repetition
penalty of a golden model.

    pip install torch transformers safetensors numpy
    scripts/make_sampling_golden.py [tests/data/golden/gqa] [tests/data/sampling/golden.safetensors]

    logits [cases, vocab] fp32; ids [cases, longest] int32, -1 behind the end: the tokens of the sequence;
    settings [cases, 5] fp32: top_k, p, min_p, repetition_penalty, temperature;
    probabilities [cases, vocab] fp32: after all processors, in the order in which transformers applies them;
    prompts [batch, longest] int32, -1 behind the end; tokens [batch, steps + 1] int32, greedy with PENALTY, by the
    model's checkpoint in fp32.
"""
import pathlib
import sys

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


def processors(model, ids, **settings):
    """Those of model.generate(), in its order."""
    config = GenerationConfig(**settings)
    return model._get_logits_processor(generation_config=config, input_ids_seq_length=ids.shape[1],
                                       encoder_input_ids=ids, prefix_allowed_tokens_fn=None,
                                       logits_processor=LogitsProcessorList(), device="cpu")


def probabilities(model, ids, logits, case):
    k, p, min_p, penalty, temperature = case
    chain = processors(model, ids, do_sample=True, top_k=k, top_p=p, min_p=min_p or None,
                       repetition_penalty=penalty, temperature=temperature)
    return chain(ids, logits.clone()[None]).softmax(-1)[0], chain


@torch.no_grad()
def greedy(model, prompt):
    ids = torch.tensor([prompt])
    chain = processors(model, ids, do_sample=False, repetition_penalty=PENALTY)
    for _ in range(STEPS + 1):
        scores = chain(ids, model(ids).logits[:, -1].float())
        ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], 1)
    return ids[0, len(prompt):]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/golden/gqa")
    path = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "tests/data/sampling/golden.safetensors")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(1)
    logits = 4 * torch.randn((len(CASES), VOCAB), generator=generator)
    ids = torch.full((len(CASES), 24), -1, dtype=torch.int32)
    left = []
    for i, case in enumerate(CASES):
        # The likeliest tokens are held, else a penalty changes little; one of them twice.
        held = torch.cat([logits[i].topk(8).indices, logits[i].topk(1).indices,
                          torch.randint(0, VOCAB, (4 + i,), generator=generator)])
        held = held[torch.randperm(len(held), generator=generator)]
        ids[i, :len(held)] = held
        after, chain = probabilities(model, held[None].long(), logits[i], case)
        left.append(after)
        print(case, [type(p).__name__ for p in chain], int((after > 0).sum()), "candidates")
    prompts = load_file(folder / "golden.safetensors")["prompts"]
    tokens = torch.stack([greedy(model, [t for t in row.tolist() if t >= 0]) for row in prompts])
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"logits": logits, "ids": ids, "settings": torch.tensor(CASES), "probabilities": torch.stack(left),
               "prompts": prompts, "tokens": tokens.int().contiguous()}, path)


if __name__ == "__main__":
    main()
