#!/usr/bin/env python3
"""Compares the winners of a wisdom or a sweep with published times of the same GPU and shape, as Markdown.

A ratio below 1 means that ours is faster. GEMMs on weights of fp8 are compared as presets run them: up to 64 tokens
with activations of 16 bits, more with activations of fp8. A second table has the rows that are slower by more than 5 %.
"""
import argparse
import json
import math
import pathlib
import sys

from sweep_rows import parse_problem, print_table, read_rows

PUBLISHED = pathlib.Path(__file__).resolve().parent.parent / "results" / "published"
OPS = ("linear", "attention_decode", "attention_prefill")
DEFAULTS = {"bias": "no", "append": "no", "uneven": "no", "k_layout": "sd", "causal": "yes"}
FEW_TOKENS = 64
SLOWER = 1.05


def read_winners(path):
    """The winners of a wisdom.json, or the timed rows of a sweep's CSV."""
    if path.suffix != ".csv":
        return json.loads(path.read_text())["winners"]
    winners = []
    for row in read_rows(path):
        op, dims = parse_problem(row["problem"])
        if row["status"] == "ok":
            winners.append({"op": op, "dims": {name: dims[name] for name in dims if name != "dtype"},
                            "dtype": dims["dtype"], "cache": row["cache"], "variant": row["variant"],
                            "time_us": float(row["time_us"])})
    return winners


def dims_of(winner):
    """Dims that are not at their defaults, as texts. A choice is stored as its number and its name."""
    texts = {name: str(value[1] if isinstance(value, list) else value) for name, value in winner["dims"].items()}
    return {name: text for name, text in texts.items() if DEFAULTS.get(name) != text}


def as_published(winner):
    """The dims of the published row beside a winner, or None."""
    dims = dims_of(winner)
    if winner["op"] == "attention_decode":
        dims.pop("append", None)
    if dims.get("weights") == "fp8":
        if (int(dims["tokens"]) > FEW_TOKENS) != ("activations" in dims):
            return None
        dims["activations"] = "fp8"
    return frozenset(dims.items())


def compared(op, winners, gpu):
    """The published rows of an op that have a winner: (dims, row, fastest winner)."""
    rows = {}
    for row in read_rows(PUBLISHED / f"{op}.csv"):
        dims = {name: value for name, value in row.items() if name not in ("gpu", "us", "source") and value}
        if row["gpu"] == gpu:
            rows[frozenset(dims.items())] = (dims, row)
    best = {}
    for winner in winners:
        if (winner["op"], winner["dtype"], winner["cache"]) == (op, "bf16", "cold"):
            key = as_published(winner)
            if key in rows and (key not in best or winner["time_us"] < best[key]["time_us"]):
                best[key] = winner
    return [(*rows[key], winner) for key, winner in best.items()]


def group_of(op, dims):
    """What a line of the first table compares, in the order of the lines."""
    kind = dims.get("weights") or dims.get("kv_dtype") or "bf16"
    kind += " in blocks" if kind == "fp8" and "group" in dims else ""
    if op != "linear":
        return kind, 0, f"{op}, {kind}"
    tokens = int(dims["tokens"])
    size = tokens if tokens > FEW_TOKENS else f"1 to {FEW_TOKENS}"
    return kind, max(tokens, FEW_TOKENS), f"{op}, {kind}, {size} tokens"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", metavar="RESULTS", type=pathlib.Path, help="a wisdom.json or a sweep's CSV")
    parser.add_argument("gpu", metavar="GPU", help="its device as results/published calls it: h200_sxm, a100_sxm, ...")
    options = parser.parse_args()
    try:
        winners = read_winners(options.results)
        rows = {op: compared(op, winners, options.gpu) for op in OPS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        print(f"compare_published: {options.results} is no wisdom.json or CSV of a sweep: {error!r}", file=sys.stderr)
        return 2
    lines, slower = [], []
    for op in OPS:
        groups = {}
        for dims, row, winner in rows[op]:
            us, published = winner["time_us"], float(row["us"])
            groups.setdefault(group_of(op, dims), []).append(us / published)
            if us > SLOWER * published:
                problem = ",".join(f"{name}={value}" for name, value in dims.items())
                slower.append((us / published, f"`{op}[{problem}]`", winner["variant"], f"{us:.4g}",
                               f"{published:.4g} {row['source']}"))
        for (*_, title), ratios in sorted(groups.items()):
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            count = sum(ratio > SLOWER for ratio in ratios)
            lines.append([title, str(len(ratios)), f"{mean:.2f}", str(count), f"{max(ratios):.2f}"])
    if not lines:
        print(f"compare_published: {options.results} has no winner beside a row of '{options.gpu}'", file=sys.stderr)
        return 1
    print_table(["winners", "compared", "geometric mean", "slower by more than 5 %", "largest"], lines)
    print()
    print_table(["slower", "ours", "us", "published us", "ratio"],
                [[*cells, f"{ratio:.2f}"] for ratio, *cells in sorted(slower, reverse=True)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
