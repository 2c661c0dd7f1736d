#!/usr/bin/env python3
"""Compares our best time with the peers' best, problem by problem, as a Markdown table.

A ratio below 1 means that ours is faster. Problems match if the op, the dtype and every dim that both name agree; dims
that only one side names (our defaults) are shown. OURS is a sweep's CSV or decode.csv.
"""
import argparse
import re
import sys

from sweep_rows import fastest, parse_problem, print_table, read_rows

CHOICES = {"no": "0", "yes": "1"}  # a choice may be written as a number


def decode_as_row(row):
    """A row of decode.csv as a row of a sweep."""
    dims = f"model={row['model']},batch={row['batch']},context={row['context']},dtype={row['dtype']}"
    return {"problem": f"llama_decode[{dims}]", "variant": row["plan_set"], "status": "ok", "cache": "cold",
            "time_us": row["us_per_token"]}


def best_rows(path, variants):
    """By problem the fastest row of the variants whose complete names match."""
    rows = [decode_as_row(row) if "us_per_token" in row else row for row in read_rows(path)]
    timed = [row for row in rows if row["status"] == "ok" and row["time_us"] and row.get("cache") not in ("hot", "step")]
    return fastest([row for row in timed if variants.fullmatch(row["variant"])], lambda row: row["problem"])


def same(ours, theirs):
    """Whether two keys are of one problem."""
    (our_op, our_dims), (their_op, their_dims) = parse_problem(ours), parse_problem(theirs)
    return our_op == their_op and all(CHOICES.get(our_dims[name], our_dims[name]) == CHOICES.get(value, value)
                                      for name, value in their_dims.items() if name in our_dims)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", metavar="OURS.csv")
    parser.add_argument("peers", metavar="PEERS.csv")
    for option, default, what in (("--only", "", "only problems that match"),
                                  ("--variant", ".*", "only these variants of ours ('flash_wgmma')"),
                                  ("--peer", ".*", "only these peers ('.*cudnn')")):
        parser.add_argument(option, type=re.compile, default=re.compile(default), metavar="REGEX", help=what)
    options = parser.parse_args()
    try:
        ours, peers = best_rows(options.ours, options.variant), best_rows(options.peers, options.peer)
        matched = [(our, peer) for peer in peers.values() for our in ours.values()
                   if options.only.search(our["problem"]) and same(our["problem"], peer["problem"])]
    except (OSError, KeyError, ValueError) as error:
        print(f"compare_peers: {error}", file=sys.stderr)
        return 2
    if not matched:
        print("compare_peers: the two files have no problem in common", file=sys.stderr)
        return 1
    lines = []
    for our, peer in matched:
        us, peer_us = float(our["time_us"]), float(peer["time_us"])
        lines.append([f"`{our['problem']}`", our["variant"], f"{us:.2f}", peer["variant"], f"{peer_us:.2f}",
                      f"{us / peer_us:.3f}"])
    print_table(["problem", "ours", "us", "peer", "us", "ours / peer"], lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
