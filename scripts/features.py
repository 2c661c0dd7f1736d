#!/usr/bin/env python3
"""Prints what features cost, as Markdown, from the CSV of configs/features.yaml.

    scripts/features.py out/h200/features.csv                     each problem beside the plain one of its size
    scripts/features.py out/h200/features.csv --by variant        the fastest row of each variant
    scripts/features.py out/h200/features.csv --by shared_layout the fastest row of each value of a parameter

Problems of one size (batch, heads, lengths) are a group, and the first one in the file is the plain one.
"""
import argparse
import re

from sweep_rows import fastest, parse_problem, print_table, read_rows

SIZE = ("batch", "q_heads", "kv_heads", "context", "q_len", "kv_len", "tokens")


def features(rows):
    plain = {}
    for problem, row in fastest(rows, lambda r: r["problem"]).items():
        (op, dims), us = parse_problem(problem), float(row["time_us"])
        plain_dims, plain_us = plain.setdefault((op, *(dims.get(name) for name in SIZE)), (dims, us))
        feature = ", ".join(f"{name}={dims[name]}" for name in dims if dims[name] != plain_dims.get(name))
        sizes = ", ".join(f"{name} {dims[name]}" for name in SIZE if name in dims)
        yield [f"{op}: {sizes}", feature or "plain", f"{us:.2f}", f"{plain_us:.2f}",
               f"{100 * (us / plain_us - 1):+.1f} %" if feature else "", f"{float(row['pct_floor'] or 0):.0f}",
               row["variant"]]


def print_by(rows, name):
    def value(row):
        if name == "variant":
            return row["variant"]
        found = re.search(rf"(?:^|,){name}=(\w+)", row["config"])
        return found[1] if found else None

    best = fastest([row for row in rows if value(row) is not None], lambda r: (r["problem"], value(r)))
    values = list(dict.fromkeys(v for _, v in best))
    lines = [[problem] + [f"{float(best[problem, v]['time_us']):.2f}" if (problem, v) in best else "" for v in values]
             for problem in dict.fromkeys(p for p, _ in best)]
    print_table(["problem"] + [f"{v} us" for v in values], [line for line in lines if sum(map(bool, line[1:])) > 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--by", metavar="NAME", help="variant, or the name of a parameter")
    args = parser.parse_args()
    # The rows with a time in the sweep's own cache state; of slow configurations it is that of a few samples.
    rows = [row for row in read_rows(args.csv)
            if row["status"] == "ok" and row["op"] != "launch" and row["sampling"] != "other_cache"]
    if args.by:
        print_by(rows, args.by)
    else:
        print_table(["problem", "feature", "us", "plain us", "cost", "% of floor", "variant"], features(rows))


if __name__ == "__main__":
    main()
