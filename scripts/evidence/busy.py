#!/usr/bin/env python3
"""Does the device wait for compilers, and do compilers disturb the times?

    scripts/evidence/busy.py --out results/h200/evidence

Runs configs/evidence_500.yaml with an empty cubin cache and all compile jobs, and reads the share of the time that
the program says it was measuring since the first job. Then runs it again serially: every kernel cached, one job.
Bars: at least 80 % busy, and at most 5 % of the rows SLOWER or FASTER in `warptune compare`. busy.csv has a line per
sweep: sweep, configurations, ok, seconds, busy_pct, and of the comparison with the serial sweep rows, same, slower,
faster, ambiguous, changed_pct.
"""

import collections
import pathlib
import re
import tempfile
import time

import evidence


def sweep(program, config, folder, cache, device, *more):
    """A line of the CSV, and the path of the sweep's."""
    start = time.monotonic()
    said = evidence.run([program, "tune", config, "--device", device, "--out", folder, "-v", *more], (0, 1),
                        WARPTUNE_CACHE=cache)
    seconds = time.monotonic() - start
    counts = re.search(r"(\d+) configurations, (\d+) ok", said)
    busy = re.search(r"the workers measured (\d+) % of the time", said)
    found = list(folder.glob(f"*/{pathlib.Path(config).stem}.csv"))
    if not (counts and busy and found):
        evidence.stop("the program printed no configurations or busy time: " + said[-500:])
    return {"sweep": folder.name, "configurations": int(counts[1]), "ok": int(counts[2]), "seconds": seconds,
            "busy_pct": int(busy[1])}, found[0]


def main():
    parser = evidence.parser(__doc__, wisdom=False)
    parser.add_argument("--config", default=evidence.ROOT / "configs" / "evidence_500.yaml")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        cache = work / "cubins"
        cache.mkdir()
        ahead, ahead_csv = sweep(given.program, given.config, work / "cold cache, all jobs", cache, given.device)
        serial, serial_csv = sweep(given.program, given.config, work / "warm cache, one job", cache, given.device,
                                   "--jobs", "1")
        compared = evidence.compare(given.program, serial_csv, ahead_csv, "--all-rows")["rows"]
    matched = [row for row in compared if row["base_us"] is not None and row["new_us"] is not None]
    counts, rows = collections.Counter(row["verdict"] for row in matched), len(matched)
    changed = 100 * (counts["SLOWER"] + counts["FASTER"]) / max(rows, 1)
    ahead |= {"rows": rows, "same": counts["SAME"], "slower": counts["SLOWER"], "faster": counts["FASTER"],
              "ambiguous": counts["AMBIGUOUS"], "changed_pct": changed}
    serial |= {column: "" for column in ("rows", "same", "slower", "faster", "ambiguous", "changed_pct")}
    evidence.write_csv(given.out / "busy.csv", [ahead, serial])
    evidence.verdict("busy", ahead["busy_pct"] >= 80 and rows > 0 and changed <= 5,
                     f"measuring {ahead['busy_pct']} % of the time over {ahead['configurations']} configurations with "
                     f"a cold cache (bar 80 %), {changed:.1f} % of {rows} rows differ from a serial run (bar 5 %)")


if __name__ == "__main__":
    main()
