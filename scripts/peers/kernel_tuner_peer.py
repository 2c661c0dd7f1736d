#!/usr/bin/env python3
"""Tunes the same configurations of the same kernels with Kernel Tuner and with this program, on one GPU.

Both try all of kernel_tuner.yaml twice: fresh, and with the compiled code of the first time. Kernel Tuner runs as its
users run it: CuPy, 7 iterations, one verification, no flush of the L2. Then this program times the winners of both,
interleaved, with cold caches. Needs kernel_tuner and cupy-cuda13x (requirements.txt).
"""
import argparse
import csv
import importlib.util
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

missing = [name for name in ("numpy", "cupy", "kernel_tuner") if importlib.util.find_spec(name) is None]
if missing:
    print(f"kernel_tuner_peer: the Python package '{missing[0]}' is not installed here", file=sys.stderr)
    sys.exit(2)

import numpy as np

ROOT = Path(__file__).parents[2]
SWEEP = Path(__file__).with_name("kernel_tuner.yaml")
OPTIONS = ["-std=c++20", f"-I{ROOT}"]
MAX_ERROR = 1e-2  # relative L2 error of an output in bf16

# A kernel of kernels/ takes a struct; Kernel Tuner passes pointers and numbers. So the kernel becomes a device
# function, and a kernel around it fills the struct.
SOURCE = """\
#undef __global__
#undef __launch_bounds__
#define __global__ __device__ __forceinline__
#define __launch_bounds__(...)
#include "kernels/{file}"
extern "C" __attribute__((global, launch_bounds({threads}))) void tuned({parameters}) {{
  using namespace warptune;
  {struct} args{{}};
  {assignments}
  {expression}(args);
}}
"""
C_TYPES = {np.dtype(np.uint16): "void*", np.dtype(np.uint8): "void*", np.dtype(np.int32): "int*"}


@dataclass(frozen=True)
class Problem:
    """The arguments of an op by their names in kernels/OP/args.h; bf16 as its bits."""
    struct: str
    arguments: dict
    output: str
    expected: np.ndarray


def bf16(values: np.ndarray) -> np.ndarray:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def fp32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


RANDOM = np.random.default_rng(1)


def uniform(*shape: int) -> np.ndarray:
    return bf16(RANDOM.uniform(-1, 1, shape))


def workspace(mib: int) -> np.ndarray:
    return np.zeros(mib << 20, np.uint8)


def linear() -> Problem:
    x, weight = uniform(4096), uniform(4096, 4096)
    return Problem("LinearArgs", {"x": x, "weight": weight, "y": np.zeros_like(x), "workspace": workspace(1),
                                  "tokens": np.int32(1)}, "y", fp32(weight) @ fp32(x))


def rms_norm() -> Problem:
    x, weight = uniform(4096), uniform(4096)
    norm = fp32(x) / np.sqrt(np.mean(fp32(x) ** 2) + 1e-5)
    return Problem("RmsNormArgs", {"x": x, "weight": weight, "y": np.zeros_like(x), "tokens": np.int32(1),
                                   "eps": np.float32(1e-5)}, "y", norm * fp32(weight))


def attention_decode() -> Problem:
    heads, group, head_dim, keys = 8, 4, 128, 2048
    q, k, v = uniform(heads, group, head_dim), uniform(heads, keys, head_dim), uniform(heads, keys, head_dim)
    scale = np.float32(head_dim**-0.5)
    weights = np.exp(np.einsum("hgd,hkd->hgk", fp32(q), fp32(k)) * scale)
    expected = np.einsum("hgk,hkd->hgd", weights / weights.sum(-1, keepdims=True), fp32(v))
    return Problem("AttentionDecodeArgs", {
        "q": q, "k_cache": k, "v_cache": v, "lengths": np.array([keys], np.int32), "out": np.zeros_like(q),
        "workspace": workspace(4), "batch": np.int32(1), "capacity": np.int32(keys), "scale": scale}, "out", expected)


PROBLEMS = {"linear": linear, "rms_norm": rms_norm, "attention_decode": attention_decode}


def threads_of(row: dict) -> int:
    return int(row["block"].split("x")[0])


def source_of(row: dict, problem: Problem) -> str:
    """`row`: a configuration as `inspect --csv` describes it."""
    file, expression = row["kernel"].split(": ", 1)
    types = {name: C_TYPES[value.dtype] if value.ndim else "float" if value.dtype == np.float32 else "int"
             for name, value in problem.arguments.items()}
    return SOURCE.format(file=file, expression=expression, struct=problem.struct, threads=threads_of(row),
                         parameters=", ".join(f"{c_type} {name}" for name, c_type in types.items()),
                         assignments=" ".join(f"args.{name} = {name};" for name in types))


def tune_op(op: str, rows: list[dict]) -> tuple[float, dict]:
    """The seconds that Kernel Tuner takes for these configurations, and the fastest of them."""
    from kernel_tuner import tune_kernel
    from kernel_tuner.observers import BenchmarkObserver

    class SharedMemory(BenchmarkObserver):
        """Allows a kernel more than 48 KiB of dynamic shared memory."""

        def size(self, params: dict) -> int:
            size = int(rows[params["row"]]["dynamic_bytes"])
            self.dev.func.max_dynamic_shared_size_bytes = size
            return size

        def get_results(self) -> dict:
            return {}

    problem, shared = PROBLEMS[op](), SharedMemory()
    names = list(problem.arguments)
    output = names.index(problem.output)
    # The workspace is zero at each verification too, since it holds the counters of another configuration.
    answer = [value if name in (problem.output, "workspace") else None for name, value in problem.arguments.items()]

    def has_block(row, block_size_x):
        return threads_of(rows[row]) == block_size_x

    def verify(_, results, atol):
        difference = fp32(results[output]) - problem.expected
        return np.linalg.norm(difference) <= MAX_ERROR * np.linalg.norm(problem.expected)

    start = time.perf_counter()
    results, _ = tune_kernel(
        "tuned", lambda params: source_of(rows[params["row"]], problem),
        lambda params: tuple(map(int, rows[params["row"]]["grid"].split("x"))), list(problem.arguments.values()),
        {"row": list(range(len(rows))), "block_size_x": sorted({threads_of(row) for row in rows})},
        grid_div_x=[], grid_div_y=[], grid_div_z=[], defines={}, lang="cupy", compiler_options=OPTIONS, quiet=True,
        restrictions=[has_block],
        smem_args={"size": shared.size}, observers=[shared], answer=answer, verify=verify)
    seconds = time.perf_counter() - start
    if len(results) != len(rows) or not all(isinstance(result["time"], float) for result in results):
        raise RuntimeError(f"Kernel Tuner timed {len(results)} of {len(rows)} configurations of {op}, or some failed")
    return seconds, rows[min(results, key=lambda result: result["time"])["row"]]


def kernel_tuner(rows: list[dict], cache: Path) -> tuple[float, dict[str, dict]]:
    """All ops in a process of their own, so that CuPy has no compiled code but that of the folder `cache`."""
    os.environ["CUPY_CACHE_DIR"] = str(cache)
    seconds, winners = 0.0, {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        for op in PROBLEMS:
            taken, winners[op] = process.submit(tune_op, op, [row for row in rows if row["op"] == op]).result()
            seconds += taken
    return seconds, winners


def csv_rows(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class Program:
    """This program, with a cubin cache and results of its own."""

    def __init__(self, path: Path, out: Path):
        self.path, self.out = path, out
        self.environment = {**os.environ, "WARPTUNE_CACHE": str(out / "cubins")}

    def run(self, *arguments) -> float:
        start = time.perf_counter()
        subprocess.run([self.path, *arguments], check=True, env=self.environment, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    def tune(self, sweep: Path, results: str) -> tuple[float, list[dict]]:
        """The seconds of the whole process, and the rows of the file `results`, which it starts."""
        seconds = self.run("tune", sweep, "--fresh", "--out", self.out / "results")
        path, = self.out.glob(f"results/*/{results}")
        return seconds, [row for row in csv_rows(path) if row["op"] in PROBLEMS]

    def configurations(self, arch: str) -> list[dict]:
        """All of the sweep, with kernel, grid, block and dynamic shared memory."""
        self.run("inspect", SWEEP, "--arch", arch, "--csv", self.out / "configurations.csv")
        return csv_rows(self.out / "configurations.csv")


def key_of(row: dict) -> tuple[str, str, str]:
    return row["op"], row["variant"], row["config"]


def winners_of(rows: list[dict]) -> dict[str, dict]:
    """The fastest finalist of each op."""
    finalists = [row for row in rows if row["sampling"] == "finalist"]
    return {op: min((row for row in finalists if row["op"] == op), key=lambda row: float(row["time_us"]))
            for op in PROBLEMS}


def pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split(","))


def sweep_of(winners: list[dict[str, dict]], path: Path) -> Path:
    """A sweep of the winners only."""
    ops = []
    for op in PROBLEMS:
        rows = {key_of(winner[op]): winner[op] for winner in winners}.values()
        dims = pairs(winners[0][op]["problem"].split("[")[1].rstrip("]"))
        del dims["dtype"]
        configs: dict[str, list[dict[str, str]]] = {}  # by variant
        for row in rows:
            configs.setdefault(row["variant"], []).append(pairs(row["config"]))
        constraint = {variant: " || ".join("(" + " && ".join(f"{name} == {value}" for name, value in config.items()) + ")"
                                           for config in of) for variant, of in configs.items()}
        ops.append({"op": op, "problems": [dims],
                    "variants": [{variant: {"constraints": [text]}} for variant, text in constraint.items()]})
    path.write_text(json.dumps({"name": path.stem, "dtypes": "bf16", "finalists": 3, "ops": ops}))
    return path


def cold_us(rows: list[dict], winner: dict) -> float:
    """The last time of a configuration, which is that of the finalists where there are several."""
    return [float(row["time_us"]) for row in rows if row["cache"] == "cold" and key_of(row) == key_of(winner)][-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "warptune", help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out/kernel_tuner"), help="a new folder (%(default)s)")
    parser.add_argument("--arch", default="sm_90a", help="of the GPU (%(default)s)")
    options = parser.parse_args()
    if options.out.exists():
        print(f"kernel_tuner_peer: '{options.out}' exists; the first run needs empty caches", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True)
    program = Program(options.program, options.out.resolve())

    print(f"{'tool':14} {'code':9} {'configurations':>14} {'seconds':>8} {'per second':>10}")

    def report(tool: str, code: str, configurations: int, seconds: float):
        print(f"{tool:14} {code:9} {configurations:14} {seconds:8.1f} {configurations / seconds:10.1f}", flush=True)

    program.run("calibrate", "--out", program.out / "results")  # once per device and driver
    for code, results in (("fresh", f"{SWEEP.stem}.csv"), ("compiled", f"{SWEEP.stem}.2.csv")):
        seconds, rows = program.tune(SWEEP, results)
        report("warptune", code, len({key_of(row) for row in rows}), seconds)
    winners = {"warptune": winners_of(rows)}
    configurations = program.configurations(options.arch)
    for code in ("fresh", "compiled"):
        seconds, winners[f"kernel_tuner, {code}"] = kernel_tuner(configurations, program.out / "cupy")
        report("kernel_tuner", code, len(configurations), seconds)

    _, rows = program.tune(sweep_of(list(winners.values()), program.out / "winners.yaml"), "winners.csv")
    print(f"\n{'op':17} {'winner of':22} {'cold us':>8} {'ratio':>6}  configuration")
    for op in PROBLEMS:
        for tool, winner in winners.items():
            us = cold_us(rows, winner[op])
            print(f"{op:17} {tool:22} {us:8.3f} {us / cold_us(rows, winners['warptune'][op]):6.3f}  "
                  f"{winner[op]['variant']} {winner[op]['config']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
