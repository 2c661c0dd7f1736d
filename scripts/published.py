#!/usr/bin/env python3
"""Writes results/published/OP.csv: times that others measured and published, for the shapes of the presets.

usage: published.py FOLDER results/published
FOLDER has published_gemm.csv, published_attention_decode.csv, published_attention_prefill.csv and
published_all_reduce.csv: the best row of each GPU and shape of NVIDIA AIConfigurator's open tables
(https://github.com/ai-dynamo/aiconfigurator, Apache-2.0), as results/published/README.md describes.
"""
import csv
import pathlib
import sys

# hidden, intermediate, query heads, KV heads, head_dim, vocabulary: harness/llama/presets.cpp
MODELS = [
    (4096, 11008, 32, 32, 128, 32000),
    (5120, 13824, 40, 40, 128, 32000),
    (4096, 14336, 32, 8, 128, 128256),
    (8192, 28672, 64, 8, 128, 128256),
    (2048, 8192, 32, 8, 64, 128256),
    (3072, 8192, 24, 8, 128, 128256),
    (2048, 5632, 32, 4, 64, 32000),
    (4096, 14336, 32, 8, 128, 32768),
    (3584, 18944, 28, 4, 128, 152064),
    (4096, 12288, 32, 8, 128, 151936),
    (1024, 3072, 16, 8, 128, 151936),
]
# Our dims weights, group and activations. Others (w8a8, W4A4) have no equal here.
WEIGHTS = {
    "bfloat16": ("", "", ""),
    "int8_wo": ("int8", "", ""),
    "int4_wo": ("int4", "128", ""),
    "fp8": ("fp8", "", "fp8"),
    "fp8_block": ("fp8", "128", "fp8"),
}
FRAMEWORKS = {"TRTLLM": "TRT-LLM", "VLLM": "vLLM"}
HEADS = frozenset(model[2:5] for model in MODELS)


def shapes():
    for hidden, intermediate, q_heads, kv_heads, head_dim, vocab in MODELS:
        yield hidden, (q_heads + 2 * kv_heads) * head_dim
        yield q_heads * head_dim, hidden
        yield hidden, 2 * intermediate
        yield intermediate, hidden
        yield hidden, vocab


SHAPES = frozenset(shapes())


def linear(row):
    if (int(row["in"]), int(row["out"])) in SHAPES and row["weights"] in WEIGHTS:
        return row["tokens"], row["in"], row["out"], *WEIGHTS[row["weights"]]
    return None


def has_known_heads(row):
    return tuple(int(row[name]) for name in ("q_heads", "kv_heads", "head_dim")) in HEADS


def attention_decode(row):
    if not has_known_heads(row) or int(row["batch"]) > 64:  # more would make the file large
        return None
    kv_dtype = {"bfloat16": "", "fp8": "fp8"}[row["kv_dtype"]]
    return row["batch"], row["q_heads"], row["kv_heads"], row["head_dim"], row["context"], kv_dtype


def attention_prefill(row):
    if not has_known_heads(row) or row["dtype"] != "bfloat16":
        return None
    tokens = row["tokens"]
    return row["batch"], tokens, tokens, row["q_heads"], row["kv_heads"], row["head_dim"]


def all_reduce(row):
    return row["bytes"], row["gpus"]


# The file of the times, its dims, and the function that returns them.
OPS = [
    ("gemm", ["tokens", "in", "out", "weights", "group", "activations"], linear),
    ("attention_decode", ["batch", "q_heads", "kv_heads", "head_dim", "context", "kv_dtype"], attention_decode),
    ("attention_prefill", ["batch", "q_len", "kv_len", "q_heads", "kv_heads", "head_dim"], attention_prefill),
    ("all_reduce", ["bytes", "ranks"], all_reduce),
]


def main(folder, out):
    for name, dims, dims_of in OPS:
        best = {}
        with open(pathlib.Path(folder) / f"published_{name}.csv") as file:
            for row in csv.DictReader(file):
                if values := dims_of(row):
                    key, us = (row["gpu"], values), float(row["us"])
                    if key not in best or us < best[key][0]:
                        framework = FRAMEWORKS.get(row["framework"], row["framework"])
                        best[key] = us, f"{framework} {row['version']}"
        with open(pathlib.Path(out) / f"{dims_of.__name__}.csv", "w") as file:
            print(",".join(["gpu", "us", "source", *dims]), file=file)
            for (gpu, values), (us, source) in best.items():
                print(",".join([gpu, f"{us:g}", source, *values]), file=file)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
