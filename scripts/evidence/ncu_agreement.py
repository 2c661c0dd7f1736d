#!/usr/bin/env python3
"""Compares our times with ncu's gpu__time_duration on five decode shapes.

    scripts/evidence/run.sh ncu_agreement

For each winner: ncu's duration of one launch (caches flushed, clocks not locked, median of --repeats sessions), and the
medians of `warptune bench --cache cold` (a chain of launches on rotating weights) and `--cache isolated` (a flush, then
one launch). Our times contain the cost of a graph node, ncu's duration does not. Three tiny kernels measure that cost:
the median difference between our time and ncu's. Programmatic dependent launch is turned off, because it overlaps the
launches of a chain and ncu runs one kernel alone.
Bar: cold or isolated, less that node, within 3 % of ncu on each of the five. ncu_agreement.csv has a line per winner:
kind (node: one of the three), problem, variant, config, kernels, ncu_us, cold_us, isolated_us, winner_us (cold, as the
wisdom has it), and less the node: cold_ratio, isolated_ratio (ours / ncu).
"""

import csv
import json
import pathlib
import shutil
import statistics
import tempfile

import evidence

SHAPES = [
    r"^linear tokens=1,in=4096,out=12288,",
    r"^linear tokens=1,in=4096,out=4096,",
    r"^linear tokens=1,in=4096,out=22016,",
    r"^linear tokens=1,in=4096,out=32000,",
    r"^attention_decode batch=1,q_heads=32,kv_heads=32,head_dim=128,context=4096,.*append=no",
]
NODES = [
    r"^rms_norm tokens=1,hidden=4096",
    r"^swiglu tokens=1,intermediate=11008",
    r"^rope_append tokens=1,q_heads=32,kv_heads=32,",
]
DURATION = "gpu__time_duration.sum"


def find_ncu():
    found = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if not found:
        evidence.stop("ncu is not on this machine")
    return found


def ncu_us(ncu, program, entry, device):
    """The summed duration of the launch's kernels, and their number."""
    said = evidence.run([ncu, "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all",
                         "--csv", "--page", "raw", "--print-units", "base", "--metrics", DURATION, program, "profile",
                         f"{entry['op']}/{entry['variant']}", "--problem", evidence.pairs(entry["dims"]), "--dtype",
                         entry["dtype"], "--config", evidence.pairs(entry["config"]), "--device", device, "--inside"])
    table = list(csv.DictReader(line for line in said.splitlines() if line.startswith('"')))
    if len(table) < 2 or DURATION not in table[0]:
        evidence.stop(f"ncu recorded no kernel of {evidence.problem_key(entry)}: {said.strip()[-300:]}")
    units, *kernels = table
    to_us = {"n": 1e-3, "u": 1.0, "m": 1e3, "s": 1e6}[units[DURATION][0]]  # "ns" or "nsecond"
    return sum(float(row[DURATION].replace(",", "")) for row in kernels) * to_us, len(kernels)


def bench_us(program, wisdom, cache, device, entries):
    """The median time of each winner by problem. 10 ms of launches are enough: an isolated one needs a flush each."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        evidence.run([program, "bench", "--wisdom", wisdom, "--device", device, "--cache", cache,
                      "--benchmark_min_time=0.01", "--benchmark_repetitions=9",
                      "--benchmark_enable_random_interleaving=true",
                      "--benchmark_report_aggregates_only=true", f"--benchmark_out={out.name}"])
        told = json.load(open(out.name))["benchmarks"]
    median = {one["run_name"]: one["real_time"] for one in told if one.get("aggregate_name") == "median"}
    return {evidence.problem_key(entry): us for entry in entries for name, us in median.items()
            if name.startswith(evidence.benchmark_prefix(entry))}


def without_overlap(entry):
    config = {name: 0 if name == "pdl" else value for name, value in entry["config"].items()}
    return entry | {"config": config}


def main():
    parser = evidence.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="sessions of ncu per winner")
    given = parser.parse_args()
    ncu = find_ncu()
    shapes, nodes = (evidence.winners(given.wisdom, patterns) for patterns in (SHAPES, NODES))
    tuned = shapes + nodes
    plain = [without_overlap(entry) for entry in tuned]
    with tempfile.TemporaryDirectory() as folder:
        def written(name, entries):
            path = pathlib.Path(folder) / name / "wisdom.json"
            path.parent.mkdir()
            path.write_text(json.dumps(json.loads(given.wisdom.read_text()) | {"winners": entries}))
            if (peaks := given.wisdom.parent / "device.json").exists():
                shutil.copy(peaks, path.parent)
            return path
        alone = written("alone", plain)
        winner = bench_us(given.program, written("tuned", tuned), "cold", given.device, tuned)
        cold, isolated = (bench_us(given.program, alone, cache, given.device, plain)
                          for cache in ("cold", "isolated"))
    lines = []
    for number, entry in enumerate(plain):
        durations = [ncu_us(ncu, given.program, entry, given.device) for _ in range(given.repeats)]
        name = evidence.problem_key(entry)
        lines.append({"kind": "shape" if number < len(shapes) else "node", "problem": name, "variant": entry["variant"],
                      "config": evidence.pairs(entry["config"]), "kernels": durations[0][1],
                      "ncu_us": statistics.median(us for us, _ in durations), "cold_us": cold[name],
                      "isolated_us": isolated[name], "winner_us": winner[name]})
    shapes, nodes = lines[:len(shapes)], lines[len(shapes):]
    node = {kind: statistics.median(line[f"{kind}_us"] - line["ncu_us"] for line in nodes) if nodes else 0.0
            for kind in ("cold", "isolated")}
    for line in lines:
        for kind in node:
            line[f"{kind}_ratio"] = (line[f"{kind}_us"] - node[kind]) / line["ncu_us"]
    evidence.write_csv(given.out / "ncu_agreement.csv", lines)
    off = [min(abs(line["cold_ratio"] - 1), abs(line["isolated_ratio"] - 1)) for line in shapes]
    told = ", ".join(f"{line['cold_ratio']:.3f}/{line['isolated_ratio']:.3f}" for line in shapes)
    evidence.verdict("ncu_agreement", len(shapes) >= 5 and len(nodes) > 0 and max(off) <= 0.03,
                     f"cold/isolated over ncu: {told} (bar: one of the two within 3 % of 1 on {len(shapes)} shapes); "
                     f"a node costs {node['cold']:+.2f} us in a chain, {node['isolated']:+.2f} us alone")


if __name__ == "__main__":
    main()
