#!/usr/bin/env python3
"""Measures PyTorch on the harness's problems and writes the harness's CSV columns.

Run it in one session with `warptune tune`: same machine, same hour. Then compare with scripts/compare_peers.py. Needs
an NVIDIA GPU and scripts/peers/requirements.txt. `--only attention` times every backend of PyTorch's attention, in less
than 90 seconds on an H200; `--only ^linear` times cuBLASLt on the linear layers of 1B to 70B models, 1 to 64 tokens.
"""
import sys

import torch

import llama
from cases import Case, all_cases
from measure import Sets, Times, measure
from session import arguments, run_session, time_case


def decode_cases() -> list[Case]:
    """The end-to-end runs; their inputs are made when they run."""
    return [
        Case(op="llama_decode", dims={"model": model, "batch": batch, "context": context}, variant="torch_compile",
             run=lambda: None, inputs={}, bytes=llama.step_bytes(llama.MODELS[model], batch, context))
        for model, batch, context in llama.RUNS
    ]


def time_decode(case: Case) -> Times:
    torch._dynamo.reset()
    step, inputs = llama.decode_step(case.dims["model"], case.dims["batch"], case.dims["context"])
    return measure(step, Sets([inputs]))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--e2e", action="store_true", help="also decode steps (about a minute of compiling each)")
    options = parser.parse_args()
    return run_session(options, [*all_cases(), *(decode_cases() if options.e2e else [])], f"torch={torch.__version__}",
                       lambda case: time_decode(case) if case.op == "llama_decode" else time_case(case))


if __name__ == "__main__":
    sys.exit(main())
