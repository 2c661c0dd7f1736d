#!/usr/bin/env python3
"""Prints what features cost, as Markdown, from the CSV of configs/features.yaml.

    scripts/features.py out/h200/features.csv                     each problem beside the plain one of its size
    scripts/features.py out/h200/features.csv --by variant        the fastest row of each variant
    scripts/features.py out/h200/features.csv --by shared_layout the fastest row of each value of a parameter

Problems of one size (batch, heads, lengths) are a group, and the first one in the file is the plain one.
"""
import argparse
import csv
import re

SIZE = ("batch", "q_heads", "kv_heads", "context", "q_len", "kv_len", "tokens")


def parse(problem):
    """op[a=1,b=2] as op and dims."""
    op, dims = re.fullmatch(r"(\w+)\[(.*)\]", problem).groups()
    return op, dict(pair.split("=", 1) for pair in dims.split(","))


def read_rows(path):
    """The rows with a time in the sweep's own cache state; of slow configurations it is that of a few samples."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "ok" and row["op"] != "launch"
                and row["sampling"] != "other_cache"]
    for row in rows:
        row["time_us"] = float(row["time_us"])
    return rows


def fastest(rows, key):
    """The fastest row per key, in the order in which keys come up."""
    best = {}
    for row in rows:
        k = key(row)
        if k not in best or row["time_us"] < best[k]["time_us"]:
            best[k] = row
    return best


def print_features(rows):
    print("| problem | feature | us | plain us | cost | % of floor | variant |\n|---|---|---|---|---|---|---|")
    plain = {}
    for problem, row in fastest(rows, lambda r: r["problem"]).items():
        op, dims = parse(problem)
        size = op, *(dims.get(name) for name in SIZE)
        plain_dims, plain_us = plain.setdefault(size, (dims, row["time_us"]))
        feature = ", ".join(f"{name}={dims[name]}" for name in dims if dims[name] != plain_dims.get(name))
        cost = f"{100 * (row['time_us'] / plain_us - 1):+.1f} %" if feature else ""
        sizes = ", ".join(f"{name} {dims[name]}" for name in SIZE if name in dims)
        print(f"| {op}: {sizes} | {feature or 'plain'} | {row['time_us']:.2f} | {plain_us:.2f} | {cost} | "
              f"{float(row['pct_floor'] or 0):.0f} | {row['variant']} |")


def print_by(rows, name):
    def value(row):
        if name == "variant":
            return row["variant"]
        found = re.search(rf"(?:^|,){name}=(\w+)", row["config"])
        return found[1] if found else None

    rows = [row for row in rows if value(row) is not None]
    best = fastest(rows, lambda r: (r["problem"], value(r)))
    values = list(dict.fromkeys(v for _, v in best))
    print("| problem | " + " | ".join(f"{v} us" for v in values) + " |\n|" + "---|" * (len(values) + 1))
    for problem in dict.fromkeys(p for p, _ in best):
        times = [f"{best[problem, v]['time_us']:.2f}" if (problem, v) in best else "" for v in values]
        if sum(map(bool, times)) > 1:
            print(f"| {problem} | " + " | ".join(times) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--by", metavar="NAME", help="variant, or the name of a parameter")
    args = parser.parse_args()
    rows = read_rows(args.csv)
    print_by(rows, args.by) if args.by else print_features(rows)


if __name__ == "__main__":
    main()
