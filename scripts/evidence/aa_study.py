#!/usr/bin/env python3
"""A/A study: the same winners are run repeatedly and compared pair by pair.

    scripts/evidence/aa_study.py --out results/h200/evidence

Each run is a process of its own (`warptune rerun`); run i is compared with run i + 1, and the last with the first.
Then each row in turn of the new run is made 3 % slower (its samples times 1.03) and the pair compared again.
Bars: at most 5 % of the pairs raise a false alarm (any SLOWER or FASTER), and at least 95 % of the slowdowns are
SLOWER. aa_study.csv has a line per pair: base, new, rows, alarms, ambiguous, worst_effect_pct (the largest change of
a median in either direction), injected and caught (slowdowns). Takes about two minutes on an H200.
"""

import concurrent.futures
import csv
import pathlib
import tempfile
import time

import evidence

PROBLEMS = "|".join([
    r"^linear.tokens=1,in=4096,out=(4096|12288|32000),",
    r"^(rms_norm|add_rms_norm).tokens=1,",
    r"^rms_norm.tokens=4096,",
    r"^rope_append.tokens=1,q_heads=32,kv_heads=32,",
    r"^attention_decode.batch=1,q_heads=32,kv_heads=32,head_dim=128,context=(1024|4096),.*append=no",
    r"^argmax.batch=1,vocab=32000",
])
TIMES = ["time_us", "time_us_min", "time_us_p10", "time_us_p90", "ci_low_us", "ci_high_us"]


def key(row):
    return tuple(row[column] for column in ("run_id", "device", "problem", "variant", "config", "cache"))


def slowed(path, index, factor, folder):
    """A copy of a sweep's CSV and samples in which one row is slower."""
    rows, samples = evidence.rows_of(path), evidence.rows_of(path.with_suffix(".samples.csv"))
    row = rows[index]
    for column in TIMES:
        if row[column]:
            row[column] = repr(float(row[column]) * factor)
    for line in samples:
        if key(line) == key(row):
            line["samples_us"] = " ".join(repr(float(us) * factor) for us in line["samples_us"].split())
    for name, lines in ((path.name, rows), (path.stem + ".samples.csv", samples)):
        with open(folder / name, "w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    return folder / path.name


def judge(program, base, now, factor):
    """A line of the CSV."""
    plain = evidence.compare(program, base, now)
    effects = [row["effect"] for row in plain["rows"] if row["effect"] is not None]
    line = {"base": base.stem, "new": now.stem, "rows": plain["matched"],
            "alarms": plain["counts"]["SLOWER"] + plain["counts"]["FASTER"],
            "ambiguous": plain["counts"]["AMBIGUOUS"],
            "worst_effect_pct": 100 * max(effects, key=abs, default=0.0), "injected": 0, "caught": 0}
    for index, row in enumerate(evidence.rows_of(now)):
        if row["status"] != "ok" or row["op"] == "launch":  # launch floors are not compared
            continue
        with tempfile.TemporaryDirectory() as folder:
            changed = evidence.compare(program, base, slowed(now, index, factor, pathlib.Path(folder)))
        line["injected"] += 1
        line["caught"] += any(one["verdict"] == "SLOWER" and all(one[c] == row[c] for c in ("problem", "variant"))
                              for one in changed["rows"])
    return line


def main():
    parser = evidence.parser(__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--problem", default=PROBLEMS, help="winners to run, a regular expression")
    parser.add_argument("--slowdown", type=float, default=1.03)
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        runs = [evidence.rerun(given.program, given.wisdom, given.problem, f"run{i + 1:02}", pathlib.Path(work),
                               given.device) for i in range(given.runs)]
        measured = time.monotonic() - start
        with concurrent.futures.ThreadPoolExecutor() as pool:
            lines = list(pool.map(lambda pair: judge(given.program, *pair, given.slowdown),
                                  zip(runs, runs[1:] + runs[:1])))
    evidence.write_csv(given.out / "aa_study.csv", lines)
    alarmed = sum(line["alarms"] > 0 for line in lines) / len(lines)
    injected, caught = (sum(line[column] for line in lines) for column in ("injected", "caught"))
    evidence.verdict("aa_study", alarmed <= 0.05 and injected > 0 and caught >= 0.95 * injected,
                     f"{100 * alarmed:.1f} % of {len(lines)} pairs of {lines[0]['rows']} rows raised a false alarm "
                     f"(bar 5 %), {caught} of {injected} slowdowns of {100 * (given.slowdown - 1):.3g} % were caught "
                     f"(bar 95 %); "
                     f"{sum(line['ambiguous'] for line in lines)} rows ambiguous; {measured:.0f} s of runs")


if __name__ == "__main__":
    main()
