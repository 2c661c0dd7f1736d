#!/usr/bin/env python3
"""The time per op in a recording of nsys, from its SQLite export (scripts/nsys_decode.sh makes both).

    nsys export --type sqlite --output report.sqlite report.nsys-rep
    scripts/nsys_ops.py report.sqlite
    scripts/nsys_ops.py report.sqlite --by kernel --csv kernels.csv

A kernel belongs to the op that its name begins with: attention_decode_combine is of attention_decode. Kernels of
libraries are a line each. Under programmatic dependent launch kernels overlap: the next one is resident, prefetches
weights and waits for the last one. So a kernel's exclusive time counts, from the end of the kernel before it, or from its
own start if that is later, to its own end. Columns: op or kernel, count, kernel_us (from start to end), exclusive_us,
average_us and share_pct (of the exclusive time) and, where the NVTX ranges "step N" of decode were recorded,
us_per_step.
"""

import argparse
import csv
import pathlib
import sqlite3
import sys

OPS = sorted((path.parent.name for path in pathlib.Path(__file__).resolve().parents[1].glob("kernels/*/args.h")),
             key=len, reverse=True)  # the longest prefix first

KERNELS = """
    SELECT StringIds.value AS name, COUNT(*), SUM(end - start), SUM(MAX(0, end - MAX(start, before)))
    FROM (SELECT shortName, start, end, COALESCE(MAX(end) OVER (
            ORDER BY end, start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
          FROM CUPTI_ACTIVITY_KIND_KERNEL) AS kernel
    JOIN StringIds ON StringIds.id = kernel.shortName
    GROUP BY StringIds.value"""
SPAN = "SELECT MAX(end) - MIN(start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
# A registered string is in StringIds, another one in the event itself. 59 is a push and its pop.
STEPS = """
    SELECT COUNT(*) FROM NVTX_EVENTS AS event LEFT JOIN StringIds ON StringIds.id = event.textId
    WHERE event.eventType = 59 AND COALESCE(event.text, StringIds.value) GLOB 'step [0-9]*'"""


def stop(why):
    print(f"nsys_ops: {why}", file=sys.stderr)
    sys.exit(2)


def op_of(kernel):
    return next((op for op in OPS if kernel.startswith(op + "_")), kernel)


def read(path):
    """The kernels as (name, count, ns, exclusive ns), ns from the first start to the last end, and the number of steps."""
    if not path.is_file():
        stop(f"'{path}' is not a file")
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as database:
        try:
            tables = {name for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
                stop(f"'{path}' holds no kernels; record with --trace=cuda,nvtx --cuda-graph-trace=node")
            steps = database.execute(STEPS).fetchone()[0] if "NVTX_EVENTS" in tables else 0
            return database.execute(KERNELS).fetchall(), database.execute(SPAN).fetchone()[0], steps
        except sqlite3.DatabaseError as error:
            stop(f"'{path}' is not an SQLite export of nsys: {error}")


def grouped(kernels, by, steps):
    """One line per op or kernel, the longest exclusive time first."""
    totals = {}
    for name, *numbers in kernels:
        entry = totals.setdefault(op_of(name) if by == "op" else name, [0, 0, 0])
        entry[:] = map(sum, zip(entry, numbers))
    everything = sum(exclusive for _, _, exclusive in totals.values())
    lines = []
    for name, (count, ns, exclusive) in sorted(totals.items(), key=lambda item: -item[1][2]):
        line = {by: name, "count": count, "kernel_us": f"{ns / 1e3:.2f}", "exclusive_us": f"{exclusive / 1e3:.2f}",
                "average_us": f"{exclusive / 1e3 / count:.2f}", "share_pct": f"{100 * exclusive / everything:.1f}"}
        if steps:
            line["us_per_step"] = f"{exclusive / 1e3 / steps:.2f}"
        lines.append(line)
    return lines


def print_table(lines):
    names = list(lines[0])
    widths = {name: max(len(name), *(len(str(line[name])) for line in lines)) for name in names}
    for line in [dict(zip(names, names)), *lines]:
        cells = [str(line[name]).rjust(widths[name]) for name in names[1:]]
        print("  ".join([str(line[names[0]]).ljust(widths[names[0]]), *cells]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=pathlib.Path)
    parser.add_argument("--by", choices=["op", "kernel"], default="op")
    parser.add_argument("--csv", type=pathlib.Path, help="also write the lines to this file")
    given = parser.parse_args()
    kernels, span, steps = read(given.database)
    if not kernels:
        stop(f"'{given.database}' holds no kernels")
    lines = grouped(kernels, given.by, steps)
    busy = sum(exclusive for *_, exclusive in kernels)
    per = f"{steps} steps, per step " if steps else ""
    print(f"{per}{span / 1e3 / (steps or 1):.2f} us from the first kernel to the last, "
          f"{busy / 1e3 / (steps or 1):.2f} us in kernels")
    print_table(lines)
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
