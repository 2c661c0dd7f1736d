"""An exported folder as `warptune export` writes it, made by hand, and a driver without a GPU."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]


def pointer(name, offset, **more):
    return {"name": name, "type": "pointer", "offset": offset, "size": 8} | (more or {"tensor": name})


def number(name, offset, type="int32", **more):
    return {"name": name, "type": type, "offset": offset, "size": 4} | more


def dim(name, role="shape", **more):
    return {"name": name, "role": role, "doc": name} | more


def stage(kernel, grid, **more):
    return {
        "cubin": "cubins/1.cubin",
        "kernel": kernel,
        "expression": kernel,
        "grid": grid,
        "block": [256, 1, 1],
        "shared_bytes": 0,
        "cluster": 1,
        "pdl": True,
        "per_sm": False,
        "max_blocks": 0,
        "tensor_maps": [],
    } | more


def rows_per_block(dim_name, rows):
    return {"plus": 0, "times": 1, "factors": [{"of": dim_name, "multiplier": 1, "divisor": rows}]}


def plan(op, dims, ranges, stages, fields, bytes, workspace=0):
    labels = ",".join(f"{name}={value}" for name, value in ({n: r[1] for n, r in ranges.items()} | dims).items())
    return {
        "problem": f"{op}[{labels},dtype=fp32]",
        "op": op,
        "dtype": "fp32",
        "dims": dims,
        "ranges": ranges,
        "variant": "made_up",
        "config": {},
        "stages": stages,
        "args": {"bytes": bytes, "fields": fields},
        "workspace": {"bytes": workspace, "zeroed": "once"},
        "tensors": [],
    }


OPS = [
    {"name": "rms_norm", "summary": "", "dims": [dim("tokens", "work"), dim("hidden")]},
    {
        "name": "linear",
        "summary": "",
        "dims": [
            dim("tokens", "work"),
            dim("in"),
            dim("out"),
            dim("bias", default="no"),
            dim("prologue", default="none"),
            dim("epilogue", default="none"),
            dim("weights", default="same"),
            dim("group", default=0),
            dim("zeros", default="no"),
            dim("act_order", default="no"),
        ],
    },
    {
        "name": "attention_decode",
        "summary": "",
        "dims": [
            dim("batch", "work"),
            dim("q_heads"),
            dim("kv_heads"),
            dim("head_dim"),
            dim("context", "work"),
            dim("uneven", "data", default="no"),
            dim("append", default="no"),
            dim("window", default=0),
        ],
    },
]
UNQUANTIZED = {"weights": "same", "group": 0, "zeros": "no", "act_order": "no"}
INT4 = {"weights": "int4", "group": 32, "zeros": "yes", "act_order": "yes"}
NVFP4 = UNQUANTIZED | {"weights": "nvfp4", "group": 16}
PLANS = [
    plan("rms_norm", {"hidden": 64}, {"tokens": [1, 8]}, [stage("rms", [rows_per_block("tokens", 2), 1, 1])],
         [pointer("x", 0), pointer("weight", 8), pointer("y", 16), number("tokens", 24, dim="tokens"),
          number("eps", 28, "float32", value=1e-5)], 32),
    plan("rms_norm", {"hidden": 64}, {"tokens": [32, 64]}, [stage("rms", [1, 1, 1])], [], 32),
    plan("linear", {"in": 64, "out": 32, "bias": "no", "prologue": "none", "epilogue": "none"} | UNQUANTIZED,
         {"tokens": [1, 4]},
         [stage("gemv", [1, 1, 1], per_sm=True)],
         [pointer("x", 0), pointer("weight", 8), pointer("bias", 16, value=0), pointer("y", 24),
          pointer("workspace", 32, workspace=True), number("tokens", 40, dim="tokens")], 48, workspace=1024),
    plan("linear", {"in": 64, "out": 32, "bias": "no", "prologue": "rms_norm", "epilogue": "add"} | INT4,
         {"tokens": [1, 4]}, [stage("gemv_int4", [2, 1, 1])],
         [pointer("x", 0), pointer("weight", 8), pointer("y", 16), pointer("norm_weight", 24), pointer("residual", 32),
          pointer("scales", 40), pointer("zeros", 48), pointer("order", 56), number("tokens", 64, dim="tokens"),
          number("eps", 68, "float32", value=1e-5)], 72),
    plan("linear", {"in": 64, "out": 32, "bias": "no", "prologue": "none", "epilogue": "none"} | NVFP4,
         {"tokens": [1, 4]}, [stage("gemv_nvfp4", [2, 1, 1])],
         [pointer("x", 0), pointer("weight", 8), pointer("y", 16), pointer("scales", 24), pointer("row_scales", 32),
          number("tokens", 40, dim="tokens")], 48),
    plan("attention_decode", {"q_heads": 8, "kv_heads": 2, "head_dim": 64, "append": "no", "window": 0},
         {"batch": [1, 4], "context": [1, 256]}, [stage("attend", [2, 1, 1]), stage("combine", [1, 1, 1])],
         [pointer("q", 0), pointer("k_cache", 8), pointer("v_cache", 16), pointer("lengths", 24), pointer("out", 32),
          number("batch", 40, dim="batch"), number("capacity", 44, required=True),
          number("scale", 48, "float32", value=0.125)], 56),
]  # fmt: skip


@pytest.fixture
def winners(tmp_path):
    folder = tmp_path / "winners"
    (folder / "cubins").mkdir(parents=True)
    (folder / "cubins" / "1.cubin").write_bytes(b"machine code")
    document = {"schema": 1, "arch": "sm_90a", "ops": OPS, "plans": PLANS, "left_out": []}
    (folder / "warptune.json").write_text(json.dumps(document))
    return folder


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """Runs Python code where libcuda.so.1 is fake_driver.cpp; returns its launches."""
    cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or not (cuda / "cuda.h").exists():
        pytest.skip("no C++ compiler or no cuda.h here")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("fake_driver.cpp")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{cuda}", source, "-o", library], check=True)

    def run(code, *arguments, args_bytes=0):
        log = folder / "launches"
        log.write_text("")
        environment = os.environ | {
            "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "WARPTUNE_FAKE_DRIVER_LOG": str(log),
            "WARPTUNE_FAKE_DRIVER_BYTES": str(args_bytes),
        }
        command = [sys.executable, "-c", code, *map(str, arguments)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return [json.loads(line) for line in log.read_text().splitlines()]

    return run


@pytest.fixture(scope="session")
def program():
    """The path of the program `warptune`."""
    path = os.environ.get("WARPTUNE_PROGRAM")
    if not path:
        pytest.skip("WARPTUNE_PROGRAM does not name the program")
    return path
