#!/usr/bin/env python3
"""Simulates the choice for problems without a winner on the recorded ones: the table of docs/choosing.md.

Each problem is left out of the wisdom in turn (linear: all problems of its in and out). Its likely configurations are
those of TunedPlans::likely() without default tiles: by rank from the 8 nearest problems, at most 8 of kernels and 12 in
all. The loss compares the fastest of them that is recorded with the fastest recorded one. Problems of sweeps that timed
likely configurations only are neighbors and have no loss.
usage: likely_configs.py [WISDOM]
"""
import collections
import json
import math
import sys

LIBRARIES = ("cublaslt", "cudnn")
NEIGHBORS, COMPILED, ALL = 8, 8, 12
OTHER_LABEL = 2
LIKELY_ONLY = ("missing.csv", "published.csv")


def problems_of(wisdom):
    """By op: (dims, times by configuration, CSV) of each bf16 problem that was timed cold."""
    problems = collections.defaultdict(list)
    for winner in wisdom["winners"]:
        if winner["dtype"] != "bf16" or winner["cache"] != "cold" or not winner.get("times"):
            continue
        dims = {name: ("label", value[0]) if isinstance(value, list) else value for name, value in winner["dims"].items()}
        times = {}
        for variant, recorded in winner["times"].items():
            for row in recorded["rows"]:
                *values, us = row.split()
                times[variant, tuple(values)] = float(us)
        problems[winner["op"]].append((dims, times, winner["csv"]))
    return problems


def distance(a, b):
    total = 0
    for name in sorted(a.keys() | b.keys()):  # the order of a sum decides ties
        x, y = a.get(name), b.get(name)
        if x == y:
            continue
        sizes = isinstance(x, int) and isinstance(y, int) and x > 0 and y > 0
        total += abs(math.log2(x / y)) if sizes else OTHER_LABEL
    return total


def likely(neighbors):
    chosen, compiled = [], 0
    ranked = [sorted(times, key=times.get) for times in neighbors]
    for rank in range(max(map(len, ranked), default=0)):
        for configs in ranked:
            if rank >= len(configs) or configs[rank] in chosen or len(chosen) == ALL:
                continue
            is_kernel = configs[rank][0] not in LIBRARIES
            if is_kernel and compiled == COMPILED:
                continue
            chosen.append(configs[rank])
            compiled += is_kernel
    return chosen


def losses(op, problems):
    """Percent, of the likely configurations and of the nearest winner; None where none of them is recorded."""
    for dims, times, csv in problems:
        if csv in LIKELY_ONLY:
            continue

        def left_out(other):
            shape = ("in", "out") if op == "linear" else dims
            return all(dims.get(name) == other.get(name) for name in shape)

        near = sorted((distance(dims, other), i) for i, (other, *_) in enumerate(problems) if not left_out(other))
        lists = [problems[i][1] for _, i in near[:NEIGHBORS]]
        best = min(times.values())

        def loss(configs):
            known = [times[config] for config in configs if config in times]
            return 100 * (min(known) / best - 1) if known else None

        yield loss(likely(lists)), loss(likely(lists[:1])[:1])


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "results/h200/wisdom.json"
    for op, problems in problems_of(json.load(open(path))).items():
        if len(problems) < 10:
            continue
        pairs = list(losses(op, problems))
        timed = sorted(loss for loss, _ in pairs if loss is not None)
        single = [loss for _, loss in pairs if loss is not None]
        print(f"| `{op}` | {len(timed)} of {len(pairs)} | {sum(timed) / len(timed):.1f} % | "
              f"{timed[int(0.9 * len(timed))]:.1f} % | {timed[-1]:.0f} % | {sum(single) / len(single):.1f} % |")


if __name__ == "__main__":
    main()
