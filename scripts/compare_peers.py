#!/usr/bin/env python3
"""Compares our best time with the peers' best, problem by problem, as a Markdown table.

A ratio below 1 means that ours is faster. Problems match if the op, the dtype and every dim that both name agree; dims
that only one side names (our defaults) are shown. OURS is a sweep's CSV or decode.csv.
"""
import argparse
import csv
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Best:
    """The fastest row of one problem."""
    problem: str
    variant: str
    time_us: float
    dims: dict = field(default_factory=dict)


def parse_problem(text: str) -> tuple[str, dict]:
    match = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if not match:
        raise ValueError(f"'{text}' is not the key of a problem")
    return match[1], dict(pair.split("=", 1) for pair in match[2].split(",") if pair)


def decode_as_row(row: dict) -> dict:
    """A row of decode.csv as a row of a sweep."""
    dims = f"model={row['model']},batch={row['batch']},context={row['context']},dtype={row['dtype']}"
    return {"problem": f"llama_decode[{dims}]", "variant": row["plan_set"], "status": "ok", "cache": "cold",
            "time_us": row["us_per_token"]}


def best_rows(path: Path, variants: re.Pattern) -> dict[str, Best]:
    """The rows of variants whose complete names match."""
    best: dict[str, Best] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if "us_per_token" in row:
                row = decode_as_row(row)
            if row["status"] != "ok" or not row["time_us"] or row.get("cache") in ("hot", "step"):
                continue
            if not variants.fullmatch(row["variant"]):
                continue
            problem, time_us = row["problem"], float(row["time_us"])
            if problem not in best or time_us < best[problem].time_us:
                best[problem] = Best(problem, row["variant"], time_us, parse_problem(problem)[1])
    return best


CHOICES = {"no": "0", "yes": "1"}  # a choice may be written as a number


def same(ours: dict, theirs: dict) -> bool:
    return all(CHOICES.get(ours[name], ours[name]) == CHOICES.get(value, value)
               for name, value in theirs.items() if name in ours)


def pairs(ours: dict[str, Best], peers: dict[str, Best]) -> list[tuple[Best, Best]]:
    by_op = defaultdict(list)
    for best in ours.values():
        by_op[parse_problem(best.problem)[0]].append(best)
    return [(our, peer) for peer in peers.values() for our in by_op[parse_problem(peer.problem)[0]]
            if same(our.dims, peer.dims)]


def table(matched: list[tuple[Best, Best]]) -> str:
    lines = ["| problem | ours | us | peer | us | ours / peer |", "|---|---|---|---|---|---|"]
    for our, peer in matched:
        lines.append(f"| `{our.problem}` | {our.variant} | {our.time_us:.2f} | {peer.variant} | {peer.time_us:.2f} "
                     f"| {our.time_us / peer.time_us:.3f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=Path, metavar="OURS.csv")
    parser.add_argument("peers", type=Path, metavar="PEERS.csv")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="only problems that match")
    parser.add_argument("--variant", type=re.compile, default=re.compile(".*"), metavar="REGEX",
                        help="only these variants of ours ('flash_wgmma')")
    parser.add_argument("--peer", type=re.compile, default=re.compile(".*"), metavar="REGEX",
                        help="only these peers ('.*cudnn')")
    options = parser.parse_args()
    try:
        ours, peers = best_rows(options.ours, options.variant), best_rows(options.peers, options.peer)
    except (OSError, KeyError, ValueError) as error:
        print(f"compare_peers: {error}", file=sys.stderr)
        return 2
    matched = [(o, p) for o, p in pairs(ours, peers) if options.only.search(o.problem)]
    if not matched:
        print("compare_peers: the two files have no problem in common", file=sys.stderr)
        return 1
    print(table(matched))
    return 0


if __name__ == "__main__":
    sys.exit(main())
