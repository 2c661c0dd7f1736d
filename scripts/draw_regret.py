#!/usr/bin/env python3
"""draw_regret.py: the problems of configs/regret.yaml and configs/regret_linear.yaml, drawn from a seed.

Attention: 30 of decode: batch 1 to 128 and context 200 to 100000, both log-uniform, drawn again where K and V take more than 2 GB.
8 prompts: batch 1 to 16 and 300 to 8192 tokens, log-uniform, drawn again above 16384 tokens in all. 2 chunks of 256 to
1024 tokens over a cache of 8192 to 32768. Heads 32/8, 32/32, 64/8, 40/40 and 28/4 with weights 5, 4, 3, 1 and 1; of
32/8 one in four has head_dim 64.

Linear (--op linear): 8 shapes of one token, 16 of 2 to 64 tokens, log-uniform; in from 1536 to 28672 and out from 1536
to 65536 in steps of 256, log-uniform, drawn again unless the weight has 8 to 800 MB.
"""
import argparse
import math
import random

HEADS = {(32, 8): 5, (32, 32): 4, (64, 8): 3, (40, 40): 1, (28, 4): 1}


def heads(rng):
    q_heads, kv_heads = rng.choices(list(HEADS), list(HEADS.values()))[0]
    return q_heads, kv_heads, 64 if (q_heads, kv_heads) == (32, 8) and rng.random() < 0.25 else 128


def log_uniform(rng, low, high):
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def until(draw, fits):
    while not fits(*(drawn := draw())):
        pass
    return drawn


def draw_linear(rng):
    for i in range(24):
        tokens = 1 if i < 8 else log_uniform(rng, 2, 64)
        width, out = until(
            lambda: (256 * log_uniform(rng, 6, 112), 256 * log_uniform(rng, 6, 256)),
            lambda i, o: 8e6 <= 2 * i * o <= 800e6)
        print(f"      - {{tokens: {tokens}, in: {width}, out: {out}}}")


def draw_attention(rng):
    shape = "{{batch: {}, {}q_heads: {}, kv_heads: {}, head_dim: {}{}}}"
    for _ in range(30):
        q, kv, dim = heads(rng)
        batch, context = until(
            lambda: (log_uniform(rng, 1, 128), log_uniform(rng, 200, 100000)),
            lambda b, c: 4 * b * c * kv * dim <= 2e9)
        print("      - " + shape.format(batch, "", q, kv, dim, f", context: {context}"))
    print()
    for i in range(10):
        q, kv, dim = heads(rng)
        if i < 8:
            batch, q_len = until(
                lambda: (log_uniform(rng, 1, 16), log_uniform(rng, 300, 8192)), lambda b, t: b * t <= 16384)
            kv_len = q_len
        else:
            batch, q_len, kv_len = 1, log_uniform(rng, 256, 1024), log_uniform(rng, 8192, 32768)
        print("      - " + shape.format(batch, f"q_len: {q_len}, kv_len: {kv_len}, ", q, kv, dim, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", choices=["attention", "linear"], default="attention")
    parser.add_argument("--seed", type=int, default=12)
    options = parser.parse_args()
    {"attention": draw_attention, "linear": draw_linear}[options.op](random.Random(options.seed))


if __name__ == "__main__":
    main()
