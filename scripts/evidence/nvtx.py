#!/usr/bin/env python3
"""Do NVTX ranges change the times? Two builds, one with NVTX compiled in and one without.

    cmake --preset no-nvtx && cmake --build --preset no-nvtx --target warptune
    scripts/evidence/nvtx.py --without build-no-nvtx/warptune --out results/h200/evidence

Runs a few winners with the two interleaved, --rounds times each. Bar: the medians of each row differ by less than 1 %.
nvtx.csv has a line per row: problem, variant, with_us, without_us, difference_pct. Takes about a minute on an H200.
"""

import pathlib
import statistics
import tempfile

import evidence

PROBLEMS = r"^linear.tokens=1,in=4096,out=(4096|12288),|^rms_norm.tokens=(1|4096),|^argmax.batch=1,vocab=32000"


def main():
    parser = evidence.parser(__doc__)
    parser.add_argument("--without", required=True, help="warptune built with -DWARPTUNE_NVTX=OFF")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--problem", default=PROBLEMS, help="winners to run, a regular expression")
    given = parser.parse_args()
    times = {}
    with tempfile.TemporaryDirectory() as work:
        for number in range(given.rounds):
            for build, program in (("with", given.program), ("without", given.without)):
                path = evidence.rerun(program, given.wisdom, given.problem, f"{build}{number}", pathlib.Path(work),
                                      given.device)
                for row in evidence.rows_of(path):
                    if row["status"] == "ok" and row["op"] != "launch":
                        both = times.setdefault((row["problem"], row["variant"]), {"with": [], "without": []})
                        both[build].append(float(row["time_us"]))
    lines = []
    for (problem, variant), both in times.items():
        a, b = (statistics.median(both[build]) for build in ("with", "without"))
        lines.append({"problem": problem, "variant": variant, "with_us": a, "without_us": b,
                      "difference_pct": 100 * (a / b - 1)})
    evidence.write_csv(given.out / "nvtx.csv", lines)
    worst = max(abs(line["difference_pct"]) for line in lines)
    evidence.verdict("nvtx", worst < 1,
                     f"{len(lines)} rows differ by at most {worst:.2f} % with NVTX compiled in (bar 1 %)")


if __name__ == "__main__":
    main()
