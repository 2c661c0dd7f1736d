#!/usr/bin/env python3
"""Measures PyTorch on the harness's problems and writes the harness's CSV columns.

One sitting: run it on the machine and in the hour in which `warptune tune` runs, then compare with
scripts/compare_peers.py. Needs an NVIDIA GPU and scripts/peers/requirements.txt.
"""
import argparse
import gc
import re
import sys
import time
from pathlib import Path

import torch

import llama
from cases import Case, all_cases
from measure import Sets, Times, make_sets, measure
from rows import RowWriter


def time_case(case: Case) -> Times:
    run = case.run
    if case.compile:
        torch._dynamo.reset()
        run = torch.compile(run, mode="max-autotune-no-cudagraphs", dynamic=False, fullgraph=True)
    return measure(run, make_sets(run, case.inputs, case.rotated_bytes))


def decode_cases() -> list[Case]:
    """The end-to-end runs; their inputs are made when they run."""
    return [
        Case(op="llama_decode", dims={"model": model, "batch": batch, "context": context}, variant="torch_compile",
             run=lambda: None, inputs={}, bytes=llama.step_bytes(llama.MODELS[model], batch, context))
        for model, batch, context in llama.RUNS
    ]


def time_decode(case: Case) -> Times:
    torch._dynamo.reset()
    step, arguments = llama.decode_step(case.dims["model"], case.dims["batch"], case.dims["context"])
    return measure(step, Sets([arguments]))


def row_of(case: Case, times: Times) -> dict:
    return {
        "op": case.op, "problem": case.problem, "dtype": "bf16", "variant": case.variant, "status": "ok",
        "time_us": times.median, "time_us_min": times.least, "time_us_p10": times.p10, "time_us_p90": times.p90,
        "ci_low_us": times.ci_low, "ci_high_us": times.ci_high, "samples": times.samples,
        "launches_per_sample": times.launches, "bytes": case.bytes, "flops": case.flops,
        "gb_per_s": case.bytes / times.median * 1e-3, "tflop_per_s": case.flops / times.median * 1e-6,
    }


def failed_row(case: Case, error: Exception) -> dict:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return {"op": case.op, "problem": case.problem, "dtype": "bf16", "variant": case.variant,
            "status": "launch_error", "detail": text, "bytes": case.bytes, "flops": case.flops}


def release_memory():
    gc.collect()
    torch.cuda.empty_cache()


def run_all(cases: list[Case], writer: RowWriter) -> int:
    failures = 0
    for number, case in enumerate(cases, 1):
        try:
            times = time_decode(case) if case.op == "llama_decode" else time_case(case)
            writer.write(row_of(case, times))
            text = f"{times.median:10.2f} us  {case.bytes / times.median * 1e-3:7.0f} GB/s"
        except Exception as error:  # one op's failure costs its row, not the run
            failures += 1
            row = failed_row(case, error)
            writer.write(row)
            text = f"launch_error: {row['detail']}"
        release_memory()
        print(f"[{number}/{len(cases)}] {case.variant:24} {case.problem}  {text}", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/peers.csv"), help="CSV to append to (default: %(default)s)")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="only cases whose 'op/variant problem' matches")
    parser.add_argument("--e2e", action="store_true", help="also whole decode steps (about a minute of compiling each)")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    options = parser.parse_args()

    cases = [c for c in [*all_cases(), *(decode_cases() if options.e2e else [])] if options.only.search(c.key)]
    if options.list:
        print("\n".join(c.key for c in cases))
        return 0
    if not cases:
        print("no case matches --only", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("PyTorch sees no CUDA device", file=sys.stderr)
        return 2
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    start = time.monotonic()
    failures = run_all(cases, RowWriter(options.out))
    print(f"{len(cases)} cases, {failures} failed, {time.monotonic() - start:.0f} s; rows in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
