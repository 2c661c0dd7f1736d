"""Loading a folder and finding plans; needs neither a driver nor torch."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warptune

TREE = Path(__file__).resolve().parents[2]


class Fake:
    """Memory that claims to be on a GPU."""

    def __init__(self, shape, typestr="<f4", address=0x1000, strides=None):
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "strides": strides, "version": 3,
        }  # fmt: skip


def ops(winners):
    return warptune.load(winners, torch=False)


def test_the_version_is_that_of_the_tree():
    cmake = (TREE / "CMakeLists.txt").read_text()
    assert warptune.__version__ == re.search(r"project\(warptune VERSION ([0-9.]+)", cmake)[1]


def test_importing_needs_neither_torch_nor_numpy_nor_a_driver():
    code = "import sys, warptune; print(sorted({'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_problem_finds_its_plan(winners):
    plan = ops(winners).find("rms_norm[tokens=5,hidden=64,dtype=fp32]")
    assert plan["variant"] == "made_up"
    assert plan["covers"] == "rms_norm[tokens=1..8,hidden=64,dtype=fp32]"
    assert plan["ranges"] == {"tokens": (1, 8)}
    assert ops(winners).arch == "sm_90a"
    assert [p["op"] for p in ops(winners).plans] == ["rms_norm"] * 2 + ["linear"] * 3 + ["attention_decode"]


def test_a_problem_without_a_plan_names_the_nearest(winners):
    with pytest.raises(warptune.Error, match=r"no exported plan .* the nearest are rms_norm\[tokens=1\.\.8,hidden=64"):
        ops(winners).find("rms_norm[tokens=9,hidden=64,dtype=fp32]")
    with pytest.raises(
        warptune.Error, match="the folder has no op 'softmax'; it has attention_decode, linear, rms_norm"
    ):
        ops(winners).find("softmax[x=1,dtype=fp32]")


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(warptune.Error, match="warptune.json' cannot be read"):
        warptune.load(tmp_path, torch=False)


def test_numpy_arrays_say_which_problem_a_call_is(winners):
    x, weight = np.zeros((2, 3, 64), np.float32), np.zeros((32, 64), np.float32)
    assert ops(winners).problem("linear", x, weight) == "linear[tokens=6,in=64,out=32,bias=no,dtype=fp32]"
    assert ops(winners).problem("linear", x, weight, swiglu=True).endswith("out=16,bias=no,epilogue=swiglu,dtype=fp32]")
    assert ops(winners).problem("rms_norm", x, weight[0]) == "rms_norm[tokens=6,hidden=64,dtype=fp32]"
    with pytest.raises(ValueError, match="'softmax' has no function here; those are rms_norm"):
        ops(winners).problem("softmax", x)


def test_quantized_weights_are_one_sentence(winners):
    x, weight = np.zeros((2, 64), np.float16), np.zeros(32 * 64, np.int8)
    with pytest.raises(ValueError, match="linear: 'weight' is int8; quantized weights are packed by warptune.pack_w"):
        ops(winners).problem("linear", x, weight)


def test_a_cache_says_how_it_lies(winners):
    q, lengths = np.zeros((4, 8, 64), np.float16), np.zeros(4, np.int32)
    cache, table = np.zeros((40, 2, 16, 64), np.int8), np.zeros((4, 10), np.int32)
    scale = np.zeros((40, 2, 16), np.float32)
    key = ops(winners).problem("attention_decode", q, cache, cache, lengths, block_table=table, k_scale=scale,
                               v_scale=scale, window=32)  # fmt: skip
    assert key == (
        "attention_decode[batch=4,context=160,q_heads=8,kv_heads=2,head_dim=64,kv_dtype=int8,kv_scale=token,"
        "page_size=16,window=32,dtype=fp16]"
    )
    k = np.zeros((4, 2, 8, 128, 8), np.float16)
    v = np.zeros((4, 2, 128, 64), np.float16)
    assert "context=100,q_heads=8,kv_heads=2,head_dim=64,k_layout=dsx" in ops(winners).problem(
        "attention_decode", q, k, v, lengths, context=100
    )


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ([(2, 64), (32,)], r"rms_norm: 'weight' has the shape \[32\]; it must be \[hidden\] with hidden = 64"),
        ([(2, 64), (64, 1)], r"'weight' has the shape \[64, 1\]; it must be \[hidden\]"),
        ([(64, 64), (64,)], "out=.."),
    ],
)
def test_shapes_that_disagree_are_one_sentence(winners, arrays, sentence):
    out = None if "out" in sentence else Fake(arrays[0])
    with pytest.raises(ValueError, match=sentence):
        ops(winners).rms_norm(*map(Fake, arrays), out=out)


def test_other_mistakes_are_one_sentence(winners):
    x, weight, y = np.zeros((2, 64), np.float32), np.zeros(64, np.float32), np.zeros((2, 64), np.float32)
    call = ops(winners).rms_norm
    with pytest.raises(ValueError, match="'x' is in the memory of the cpu; the kernels run on a GPU"):
        call(x, weight, out=y)
    with pytest.raises(TypeError, match="'weight' has the dtype fp16; it must be fp32"):
        call(Fake((2, 64)), Fake((64,), "<f2"), out=Fake((2, 64)))
    with pytest.raises(TypeError, match="'x' is a list; it must be a torch tensor"):
        call([1.0], weight, out=y)
    with pytest.raises(TypeError, match="the typestr '<f8'; it must be one of <f4"):
        call(Fake((2, 64), "<f8"), weight, out=y)
    with pytest.raises(ValueError, match="'x' is not contiguous"):
        call(Fake((2, 64), strides=(4, 8)), Fake((64,)), out=Fake((2, 64)))
    with pytest.raises(warptune.Error, match="the nearest are rms_norm"):
        call(Fake((9, 64)), Fake((64,)), out=Fake((9, 64)))
