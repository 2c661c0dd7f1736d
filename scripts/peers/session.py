"""A session of a peer script: its command line, its cases timed one by one, their rows written."""
import argparse
import gc
import re
import sys
import time
from pathlib import Path
from typing import Callable

import torch

from cases import Case
from measure import Times, make_sets, measure
from rows import RowWriter


def time_case(case: Case) -> Times:
    run = case.run
    if case.compile:
        torch._dynamo.reset()
        run = torch.compile(run, mode="max-autotune-no-cudagraphs", dynamic=False, fullgraph=True)
    return measure(run, make_sets(run, case.inputs, case.rotated_bytes))


def row_of(case: Case, **values) -> dict:
    return {"op": case.op, "problem": case.problem, "dtype": "bf16", "variant": case.variant, "bytes": case.bytes,
            "flops": case.flops, **values}


def timed_row(case: Case, times: Times) -> dict:
    return row_of(case, status="ok", gb_per_s=case.bytes / times.time_us * 1e-3,
                  tflop_per_s=case.flops / times.time_us * 1e-6, **vars(times))


def failed_row(case: Case, error: Exception) -> dict:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return row_of(case, status="launch_error", detail=text)


def run_all(cases: list[Case], writer: RowWriter, time_one: Callable[[Case], Times]) -> int:
    failures = 0
    for number, case in enumerate(cases, 1):
        try:
            row = timed_row(case, time_one(case))
            text = f"{row['time_us']:10.2f} us  {row['gb_per_s']:7.0f} GB/s"
        except Exception as error:  # a failure costs only its row
            failures += 1
            row = failed_row(case, error)
            text = f"launch_error: {row['detail']}"
        writer.write(row)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"[{number}/{len(cases)}] {case.variant:24} {case.problem}  {text}", flush=True)
    return failures


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/peers.csv"), help="CSV to append to (%(default)s)")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX",
                        help="only cases whose 'op/variant problem' matches")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    return parser


def run_session(options: argparse.Namespace, cases: list[Case], config: str,
                time_one: Callable[[Case], Times] = time_case) -> int:
    """Times the cases that match --only and writes their rows. `config`: the versions used. Returns an exit code."""
    cases = [c for c in cases if options.only.search(c.key)]
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
    failures = run_all(cases, RowWriter(options.out, config), time_one)
    print(f"{len(cases)} cases, {failures} failed, {time.monotonic() - start:.0f} s; rows in {options.out}")
    return 0
