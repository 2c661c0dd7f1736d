#!/usr/bin/env python3
"""Measures FlashInfer's attention on the harness's problems and writes the harness's CSV columns.

It has the problems of torch_peers.py and also needs the package flashinfer-python (tested with 0.7.2.post1). Decode:
one sequence unpaged, several sequences with consecutive pages of 16 keys; without and with tensor cores
(`flashinfer_tc`). Prefill: the backend that the package chooses, FlashAttention-3 on Hopper. The first run compiles its
kernels, which takes minutes and is not timed.
"""
import functools
import importlib.util
import sys
from typing import Callable, Iterator

missing = [name for name in ("torch", "flashinfer") if importlib.util.find_spec(name) is None]
if missing:
    print(f"flashinfer_peers: the Python package '{missing[0]}' is not installed here", file=sys.stderr)
    sys.exit(2)

import flashinfer
import torch

from cases import (DECODE_HEAD_DIM, DECODE_SHAPES, DEVICE, DTYPE, PREFILL_SHAPES, Case, activation, decode_case,
                   prefill_case, uniform, weight)
from measure import Input
from session import arguments, run_session

PAGE = 16
WORKSPACE_BYTES = 256 << 20


def planned(make: Callable[[], Callable]) -> Callable:
    """A function that is constructed at its first call, when a device is known to exist."""
    made = functools.cache(make)
    return lambda q, k, v: made()(q, k, v)


def starts(batch: int, each: int) -> torch.Tensor:
    """The offsets of `batch` sequences of one length, and the end of the last one."""
    return torch.arange(0, batch + 1, dtype=torch.int32, device=DEVICE) * each


@functools.cache
def workspace() -> torch.Tensor:
    """The workspace of partial results until they are combined: one for all wrappers, since they run in sequence."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=DEVICE)


def single_decode_of(tensor_cores: bool) -> Callable:
    return lambda q, k, v: flashinfer.single_decode_with_kv_cache(q, k, v, kv_layout="HND",
                                                                  use_tensor_cores=tensor_cores)


def batch_decode_of(batch: int, q_heads: int, kv_heads: int, context: int, tensor_cores: bool) -> Callable:
    def make() -> Callable:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace(), "HND", use_tensor_cores=tensor_cores)
        pages = context // PAGE
        wrapper.plan(starts(batch, pages), torch.arange(batch * pages, dtype=torch.int32, device=DEVICE),
                     torch.full((batch,), PAGE, dtype=torch.int32, device=DEVICE), q_heads, kv_heads,
                     DECODE_HEAD_DIM, PAGE, q_data_type=DTYPE, kv_data_type=DTYPE)
        return lambda q, k, v: wrapper.run(q, (k, v))

    return planned(make)


def decode_cases() -> Iterator[Case]:
    for shape in DECODE_SHAPES:
        batch, q_heads, kv_heads, context = shape
        if batch == 1:
            q, cache = activation(q_heads, DECODE_HEAD_DIM), weight(kv_heads, context, DECODE_HEAD_DIM)
        else:
            q = activation(batch, q_heads, DECODE_HEAD_DIM)
            cache = weight(batch * context // PAGE, kv_heads, PAGE, DECODE_HEAD_DIM)
        for tensor_cores in (False, True):
            run = single_decode_of(tensor_cores) if batch == 1 else batch_decode_of(*shape, tensor_cores)
            yield decode_case(*shape, variant="flashinfer_tc" if tensor_cores else "flashinfer", run=run,
                              inputs={"q": q, "k": cache, "v": cache})


def prefill_of(batch: int, q_heads: int, kv_heads: int, length: int, head_dim: int, causal: int) -> Callable:
    def make() -> Callable:
        wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace(), "NHD")
        wrapper.plan(starts(batch, length), starts(batch, length), q_heads, kv_heads, head_dim, causal=bool(causal),
                     q_data_type=DTYPE, kv_data_type=DTYPE)
        return wrapper.run

    return planned(make)


def prefill_cases() -> Iterator[Case]:
    for shape in PREFILL_SHAPES:
        batch, q_heads, kv_heads, length, head_dim, _ = shape
        cache = weight(batch * length, kv_heads, head_dim)
        q = Input(uniform(batch * length, q_heads, head_dim), cold=True)
        yield prefill_case(*shape, variant="flashinfer", run=prefill_of(*shape),
                           inputs={"q": q, "k": cache, "v": cache})


def main() -> int:
    options = arguments(__doc__).parse_args()
    return run_session(options, [*decode_cases(), *prefill_cases()],
                       f"flashinfer={flashinfer.__version__},torch={torch.__version__}")


if __name__ == "__main__":
    sys.exit(main())
