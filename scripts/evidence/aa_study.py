#!/usr/bin/env python3
"""A/A study: runs of one program are compared with each other by the rules of the regression gate.

    scripts/evidence/run.sh aa_study -- --keep out/aa

`rerun`: the winners are run --runs times, each time in a process of its own. In pair i the base is three consecutive
runs, the new file the next three, and the five after them are what --confirm would time (counted cyclically). With
--interleaved the runs of base and new file alternate, and those of the confirmation, as with --base-program. `quick`:
configs/quick.yaml is tuned --sweeps times, and each sweep is compared with the next.
Then one row in twenty at a time, a fourth of all per pair, is made 3 % slower (rows above 5 us) and 10 % slower (above
2 us) in the new runs and in those of the confirmation; not with a --min-effect above 2 %. Bars: at most one alarm (exit
code 1) in 20 pairs of each kind; of `rerun`, 95 % of the slowdowns by 3 % and all by 10 % are found.
aa_study.csv has a line per pair: kind, base, rows, slower, faster, ambiguous, alarms (SLOWER after the confirmation, of
`quick` without one), worst_effect_pct, and injected_3, caught_3, injected_10, caught_10. --keep is the folder of the
runs; the ones that are there already are used, without a GPU if all are.
"""

import concurrent.futures
import csv
import pathlib
import tempfile

import evidence

CLASSES = ((5, 1.03), (2, 1.10))  # slower rows: above so many us, by this factor
STRIDE = 20                       # rows between two that are slowed at once
SLOWED = 5                        # of these, so many sets of rows per pair, other ones in the next pair
ALARM = "SLOWER"


def key(row):
    return tuple(row[column] for column in ("device", "problem", "variant", "config", "cache"))


class Run:
    """The rows of a CSV and their samples."""

    def __init__(self, path):
        self.name = path.parent.parent.name
        self.rows = [row for row in csv.DictReader(path.open(newline="")) if row["op"] != "launch"]
        self.samples = list(csv.DictReader(path.with_suffix(".samples.csv").open(newline="")))


def write(path, runs, keep=None, slow=(), factor=1.0):
    """The rows of several runs as one sweep's CSV: all or those in `keep`, some of them slower."""
    for name, lines, times in ((path, "rows", ["time_us", "time_us_min", "time_us_p10", "time_us_p90", "ci_low_us",
                                               "ci_high_us"]), (path.with_suffix(".samples.csv"), "samples", [])):
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, list(getattr(runs[0], lines)[0]))
            writer.writeheader()
            for row in (row for run in runs for row in getattr(run, lines)):
                if keep is not None and key(row) not in keep:
                    continue
                if key(row) in slow:
                    row = {**row, **{column: repr(float(row[column]) * factor) for column in times if row[column]}}
                    if "samples_us" in row:
                        row["samples_us"] = " ".join(repr(float(us) * factor) for us in row["samples_us"].split())
                writer.writerow(row)
    return path


def alarms(compare, folder, runs, slow=(), factor=1.0):
    """The comparison, and the keys of the rows that are SLOWER in the end."""
    base, now, base_again, again = runs
    paths = [folder / name for name in ("base.csv", "new.csv", "again.csv")]
    first = compare(write(paths[0], base), write(paths[1], now, slow=slow, factor=factor))
    slower = {key(row) for row in first["rows"] if row["verdict"] == ALARM}
    if again:
        suspects = {key(row) for row in first["rows"]
                    if row["effect"] is not None and row["effect"] >= first["min_effect"]}
        slower = set()
        if suspects:
            second = compare(write(paths[0], base_again, keep=suspects),
                             write(paths[2], again, keep=suspects, slow=slow, factor=factor))
            slower = {key(row) for row in second["rows"] if row["verdict"] == ALARM}
    return first, slower


def judge(compare, slowed, pair, kind, *runs):
    """A line of the CSV. `runs`: of the base, the new file, and the confirmation's base and new rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plain, slower = alarms(compare, folder, runs)
        effects = [row["effect"] for row in plain["rows"] if row["effect"] is not None]
        line = {"kind": kind, "base": runs[0][0].name, "rows": plain["matched"],
                **{verdict.lower(): plain["counts"][verdict] for verdict in ("SLOWER", "FASTER", "AMBIGUOUS")},
                "alarms": len(slower), "worst_effect_pct": 100 * max(effects, key=abs, default=0.0)}
        for above, factor in CLASSES:
            rows = [key(row) for row in plain["rows"] if row["base_us"] is not None and row["base_us"] > above
                    and row["new_us"] is not None]
            injected = caught = 0
            for start in range(SLOWED if slowed else 0):
                slow = set(rows[(SLOWED * pair + start) % STRIDE::STRIDE])
                injected += len(slow)
                if slow:
                    caught += len(slow & alarms(compare, folder, runs, slow, factor)[1])
            percent = round(100 * (factor - 1))
            line[f"injected_{percent}"], line[f"caught_{percent}"] = injected, caught
        return line


def measured(given):
    """The runs of the two kinds; measures the ones that are not kept yet."""
    reruns, sweeps = [], []
    for i in range(given.runs):
        folder = given.keep / f"rerun_{i + 1:02}"
        found = list(folder.glob("*/regress.csv"))
        reruns.append(Run(found[0] if found else evidence.rerun(given.program, given.wisdom, given.problem, "regress",
                                                                folder, given.device)))
    for i in range(given.sweeps):
        folder = given.keep / f"quick_{i + 1:02}"
        if not list(folder.glob("*/quick.csv")):
            evidence.run([given.program, "tune", evidence.ROOT / "configs" / "quick.yaml", "--out", folder, "--device",
                          given.device], (0, 1))
        sweeps.append(Run(next(folder.glob("*/quick.csv"))))
    return reruns, sweeps


def cyclic(runs, start, count, step=1):
    return [runs[(start + step * i) % len(runs)] for i in range(count)]


def windows(runs, start, interleaved):
    """The runs of a pair: base, new file, base and new rows of the confirmation."""
    if interleaved:
        return [cyclic(runs, start + first, count, 2) for first, count in ((0, 3), (1, 3), (6, 5), (7, 5))]
    base = cyclic(runs, start, 3)
    return [base, cyclic(runs, start + 3, 3), base, cyclic(runs, start + 6, 5)]


def main():
    parser = evidence.parser(__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of rerun (%(default)s)")
    parser.add_argument("--sweeps", type=int, default=20, help="of configs/quick.yaml (%(default)s)")
    parser.add_argument("--problem", default="", help="winners to run, a regular expression (all)")
    parser.add_argument("--min-effect", default="2%", help="of compare (%(default)s)")
    parser.add_argument("--interleaved", action="store_true", help="the runs of the two files alternate")
    parser.add_argument("--keep", type=pathlib.Path, default=evidence.ROOT / "out" / "aa", help="folder of the runs")
    parser.add_argument("--name", default="aa_study", help="of the CSV (%(default)s)")
    given = parser.parse_args()
    reruns, sweeps = measured(given)
    slowed = given.min_effect == "2%"

    def compare(base, now):
        return evidence.compare(given.program, base, now, "--min-effect", given.min_effect,
                                *["--interleaved"] * given.interleaved)

    jobs = [("rerun", *windows(reruns, i, given.interleaved)) for i in range(len(reruns))]
    jobs += [("quick", [sweeps[i]], cyclic(sweeps, i + 1, 1), [], []) for i in range(len(sweeps))]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        lines = list(pool.map(lambda job: judge(compare, slowed, *job), ((i, *job) for i, job in enumerate(jobs))))
    evidence.write_csv(given.out / f"{given.name}.csv", lines)
    said, good = [], bool(lines)
    for kind in ("rerun", "quick"):
        of_kind = [line for line in lines if line["kind"] == kind]
        if not of_kind:
            continue
        alarmed = sum(line["alarms"] > 0 for line in of_kind)
        found = {percent: [sum(line[f"{what}_{percent}"] for line in of_kind) for what in ("caught", "injected")]
                 for percent in (3, 10)}
        good &= 20 * alarmed <= len(of_kind)
        if kind == "rerun" and slowed:
            good &= found[3][0] >= 0.95 * found[3][1] and found[10][0] == found[10][1]
        said.append(f"{kind}: alarms in {alarmed} of {len(of_kind)} pairs of {of_kind[0]['rows']} rows"
                    + "".join(f", {caught} of {injected} slowdowns by {percent} % found"
                              for percent, (caught, injected) in found.items() if injected))
    evidence.verdict(given.name, good, "; ".join(said))


if __name__ == "__main__":
    main()
