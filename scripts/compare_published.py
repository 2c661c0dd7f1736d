#!/usr/bin/env python3
"""Compares recorded winners with the times that others published for the same GPU and shape, as a Markdown table.

WISDOM is a wisdom.json, GPU the name that results/published has for its device. A ratio below 1 means that ours is
faster. GEMMs on weights of fp8 are compared as presets run them: of more than 64 tokens those with activations of fp8,
of fewer those with activations of 16 bits. The rows that are slower by more than 5 % follow the table.
"""
import argparse
import json
import math
import pathlib

from sweep_rows import print_table, read_rows

PUBLISHED = pathlib.Path(__file__).resolve().parent.parent / "results" / "published"
OPS = ("linear", "attention_decode", "attention_prefill")
DEFAULTS = {"bias": "no", "append": "no", "uneven": "no", "k_layout": "sd", "causal": "yes"}
FEW_TOKENS = 64


def dims_of(winner):
    """Dims that are not at their defaults, as texts. A choice is stored as its number and its name."""
    texts = {name: str(value[1] if isinstance(value, list) else value) for name, value in winner["dims"].items()}
    return {name: text for name, text in texts.items() if DEFAULTS.get(name) != text}


def as_published(op, dims):
    """The dims of the published row beside a winner, or None."""
    dims = {name: value for name, value in dims.items() if (op, name) != ("attention_decode", "append")}
    if op == "linear" and dims.get("weights") == "fp8":
        if (int(dims["tokens"]) > FEW_TOKENS) != ("activations" in dims):
            return None
        dims["activations"] = "fp8"
    return frozenset(dims.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wisdom", metavar="WISDOM")
    parser.add_argument("gpu", metavar="GPU", help="h200_sxm, h100_sxm, a100_sxm, ...")
    options = parser.parse_args()
    winners = json.loads(pathlib.Path(options.wisdom).read_text())["winners"]
    lines, slower = [], []
    for op in OPS:
        published = {frozenset((name, row[name]) for name in row if name not in ("gpu", "us", "source") and row[name]):
                     row for row in read_rows(PUBLISHED / f"{op}.csv") if row["gpu"] == options.gpu}
        ratios, rows = {}, {}
        for winner in winners:
            if winner["op"] != op or winner["dtype"] != "bf16" or winner["cache"] != "cold":
                continue
            key = as_published(op, dims_of(winner))
            if key in published and winner["time_us"] < rows.get(key, (math.inf,))[0]:
                rows[key] = (winner["time_us"], winner["variant"])
        for key, (us, variant) in rows.items():
            dims = dict(key)
            kind = dims.get("weights") or dims.get("kv_dtype") or "bf16"
            kind += " in blocks" if kind == "fp8" and "group" in dims else ""
            tokens = int(dims.get("tokens", 0))
            many = tokens if tokens > FEW_TOKENS else 0
            ratio = us / float(published[key]["us"])
            ratios.setdefault((kind, many), []).append(ratio)
            if ratio > 1.05:
                problem = " ".join(f"{name}={dims[name]}" for name in published[key] if name in dims)
                slower.append([f"`{problem}`", variant, f"{us:.4g}", published[key]["source"], published[key]["us"],
                               f"{ratio:.2f}"])
        for (kind, many), values in sorted(ratios.items()):
            size = "" if op != "linear" else f", {many} tokens" if many else f", 1 to {FEW_TOKENS} tokens"
            mean = math.exp(sum(map(math.log, values)) / len(values))
            lines.append([f"{op}, {kind}{size}", str(len(values)), f"{mean:.2f}", str(sum(ratio > 1.05 for ratio in values)),
                          f"{max(values):.2f}"])
    print_table(["winners", "compared", "geometric mean", "slower by more than 5 %", "largest"], lines)
    print()
    print_table(["slower", "ours", "us", "published", "us", "ratio"], sorted(slower, key=lambda row: -float(row[-1])))


if __name__ == "__main__":
    main()
