#!/usr/bin/env python3
"""Validates T4 files, solutions and traces with the packages of the tools that read them; see check_exchange.sh.

usage: check_exchange.py PROGRAM FOLDER      FOLDER: new, for the files
"""
import csv
import importlib.util
import json
import pathlib
import subprocess
import sys
import types

import jsonschema

DATA = pathlib.Path("tests/data/exchange")
SWEEP = "results/h200/llama2-7b.csv"


def package_folder(name):
    return pathlib.Path(importlib.util.find_spec(name).submodule_search_locations[0])


def flashinfer_classes():
    """Solution, Trace and Definition. The package's __init__ needs torch, so only its data modules are loaded."""
    folder = package_folder("flashinfer_bench")
    for name, path in (("flashinfer_bench", folder), ("flashinfer_bench.data", folder / "data")):
        package = types.ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package
    modules = {name: importlib.import_module(f"flashinfer_bench.data.{name}")
               for name in ("solution", "trace", "definition")}
    return modules["solution"].Solution, modules["trace"].Trace, modules["definition"].Definition


def run(*arguments):
    subprocess.run([str(a) for a in arguments], check=True)


def check_t4(program, folder):
    with open(SWEEP, newline="") as rows:
        problem = next(csv.DictReader(rows))["problem"]
    file = folder / "t4.json"
    pattern = "".join(c if c.isalnum() or c in "_=," else "." for c in problem)
    run(program, "export-t4", SWEEP, "--problem", pattern, "-o", file)
    results = json.loads(file.read_text())
    schemas = package_folder("kernel_tuner") / "schema" / "T4" / "1.0.0"
    for name in ("results", "metadata"):
        jsonschema.validate(results, json.loads((schemas / f"{name}-schema.json").read_text()))
    run(program, "simulate", file, "--seeds", 2, "--strategy", "random")
    print(f"check_exchange: T4: {len(results['results'])} results are valid")


def write_sweep(files, program, folder):
    """A sweep's CSV with a time for each workload of rms_norm: the rows that a GPU would give."""
    columns = next(csv.reader(open(SWEEP, newline="")))
    path = folder / "trace.csv"
    run(program, "import-trace", *files, "-o", folder / "trace.yaml")
    with open(path, "w", newline="") as out:
        writer = csv.DictWriter(out, columns, restval="")
        writer.writeheader()
        for tokens in (1, 32):
            writer.writerow({
                "schema": 1, "run_id": "run", "timestamp_utc": "2026-01-02T03:04:05Z", "device": "NVIDIA H200",
                "arch": "sm_90a", "driver": "580", "toolkit": "13.0", "op": "rms_norm",
                "problem": f"rms_norm[tokens={tokens},hidden=4096,dtype=bf16]", "dtype": "bf16",
                "variant": "vectorized", "config": "block=256,rows=1,vec=8,cache_hint=none,pdl=0", "status": "ok",
                "time_us": 2.5, "cache": "cold", "max_abs_err": 0.01, "rel_l2_err": 0.001})
    return path


def check_traces(program, folder):
    solution, trace, definition = flashinfer_classes()
    for file in DATA.glob("*.json"):
        if not file.name.startswith("vector_add"):
            definition.model_validate_json(file.read_text())
    files = sorted(DATA.glob("*rmsnorm*.json")) + sorted(DATA.glob("*rmsnorm*.jsonl"))
    out = folder / "traces"
    run(program, "export-trace", *files, "--results", write_sweep(files, program, folder), "-o", out)
    solutions = [solution.model_validate_json(f.read_text()) for f in out.glob("solutions/*/*/*.json")]
    traces = [trace.model_validate_json(line)
              for f in out.glob("traces/*/*.jsonl") for line in f.read_text().splitlines()]
    names = {s.name for s in solutions}
    if not traces or any(t.solution not in names or not t.is_successful() for t in traces):
        sys.exit("check_exchange: a trace names no solution")
    print(f"check_exchange: flashinfer-bench: {len(solutions)} solutions and {len(traces)} traces are valid")


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True)
    check_t4(program, folder)
    check_traces(program, folder)


main()
