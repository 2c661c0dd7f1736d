"""Launches, seen by a driver without a GPU: the args, the grid, the stream, the workspace."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]

PRELUDE = """
import sys, warptune
class Fake:
    def __init__(self, shape, address, typestr="<f4"):
        self.shape = shape
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}
ops = warptune.load(sys.argv[1], torch=False, pdl=len(sys.argv) > 2)
"""


def test_a_call_fills_the_args_and_launches_on_the_stream(winners, driver):
    launches = driver(
        PRELUDE + "x, weight, y = Fake((5, 64), 4096), Fake((64,), 8192), Fake((5, 64), 12288)\n"
        "assert ops.rms_norm(x, weight, 0.5, out=y, stream=48) is y\n"
        "ops.rms_norm(Fake((5, 64), 16384), weight, out=y, stream=48)\n",
        winners, args_bytes=32,
    )  # fmt: skip
    first, second = launches
    assert (first["kernel"], first["grid"], first["block"], first["stream"]) == ("rms", [3, 1, 1], [256, 1, 1], 48)
    assert struct.unpack("<QQQif", bytes.fromhex(first["args"])) == (4096, 8192, 12288, 5, 0.5)
    assert struct.unpack("<QQQi", bytes.fromhex(second["args"])[:28]) == (16384, 8192, 12288, 5)
    assert first["attributes"] == 0


def test_pdl_is_an_attribute_of_the_launch(winners, driver):
    code = PRELUDE + "ops.rms_norm(Fake((5, 64), 4096), Fake((64,), 8192), out=Fake((5, 64), 12288))"
    assert [launch["attributes"] for launch in driver(code, winners, "pdl")] == [1]


def test_a_stream_has_a_workspace_of_its_own(winners, driver):
    launches = driver(
        PRELUDE + "x, weight, y = Fake((1, 64), 4096), Fake((32, 64), 8192), Fake((1, 32), 12288)\n"
        "for stream in (0, 16, 0): ops.linear(x, weight, out=y, stream=stream)\n",
        winners, args_bytes=48,
    )  # fmt: skip
    first, other, again = (struct.unpack("<QQQQQi", bytes.fromhex(launch["args"])[:44]) for launch in launches)
    assert first[:4] == (4096, 8192, 0, 12288)
    assert first[4] != 0 and first == again
    assert other[4] not in (0, first[4])
    assert launches[0]["grid"] == [132, 1, 1]


def test_members_that_shapes_decide_are_set_and_stages_follow_in_order(winners, driver):
    launches = driver(
        PRELUDE + "cache = Fake((2, 2, 256, 64), 8192)\n"
        "q, lengths, out = Fake((2, 8, 64), 4096), Fake((2,), 16384, '<i4'), Fake((2, 8, 64), 32768)\n"
        "ops.attention_decode(q, cache, cache, lengths, out=out)\n",
        winners, args_bytes=52,
    )  # fmt: skip
    assert [launch["kernel"] for launch in launches] == ["attend", "combine"]
    assert struct.unpack("<QQQQQiif", bytes.fromhex(launches[0]["args"])) == (
        4096, 8192, 8192, 16384, 32768, 2, 256, 0.125,
    )  # fmt: skip


def test_any_plan_is_launched_by_the_names_of_its_members(winners, driver):
    members = {"x": 4096, "weight": 8192, "y": 12288, "eps": 0.25}
    launches = driver(
        PRELUDE + f"ops.launch('rms_norm[tokens=1,hidden=64,dtype=fp32]', {members}, stream=32)",
        winners, args_bytes=32,
    )  # fmt: skip
    assert struct.unpack("<QQQif", bytes.fromhex(launches[0]["args"])) == (4096, 8192, 12288, 1, 0.25)


def sentence(driver, winners, statement):
    """The error of a statement."""
    code = f"{PRELUDE}try:\n  {statement}\nexcept warptune.Error as e:\n  print(e, file=open(sys.argv[2], 'w'))"
    file = winners / "sentence"
    assert driver(code, winners, file) == []
    return file.read_text()


def test_mistakes_of_a_launch_are_one_sentence(winners, driver):
    key = "'rms_norm[tokens=1,hidden=64,dtype=fp32]'"
    assert "also needs 'y'" in sentence(driver, winners, f"ops.launch({key}, {{'x': 0, 'weight': 0}})")
    assert "have no member 'z'; they have x, weight" in sentence(driver, winners, f"ops.launch({key}, {{'z': 0}})")
    misaligned = "ops.rms_norm(Fake((1, 64), 4104), Fake((64,), 8192), out=Fake((1, 64), 12288))"
    assert "'x' begins at an address that is no multiple of 16 bytes" in sentence(driver, winners, misaligned)


def test_without_a_driver_a_launch_says_so(winners, tmp_path):
    (tmp_path / "libcuda.so.1").write_text("no library")
    code = PRELUDE + "ops.rms_norm(Fake((5, 64), 4096), Fake((64,), 8192), out=Fake((5, 64), 12288))"
    ended = subprocess.run([sys.executable, "-c", code, winners], env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
                           capture_output=True, text=True, check=False)  # fmt: skip
    assert "libcuda.so.1 cannot be loaded: a launch needs a GPU and its driver" in ended.stderr


def test_the_folder_is_that_of_the_exporting_program(program, tmp_path, driver):
    out = tmp_path / "exported"
    ended = subprocess.run(
        [program, "export", "--wisdom", TREE / "results/h200/wisdom.json", "--arch", "sm_90a", "-o", out,
         "--problem", r"^rms_norm\[tokens=1,hidden=4096,dtype=bf16"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "CUDA" in ended.stderr:
        pytest.skip("this program is built without CUDA")
    assert ended.returncode == 0, ended.stderr
    members = {"x": 4096, "weight": 8192, "y": 12288}
    code = PRELUDE + f"ops.launch('rms_norm[tokens=1,hidden=4096,dtype=bf16]', {members})"
    (launch,) = driver(code, out, args_bytes=28)
    assert struct.unpack("<QQQi", bytes.fromhex(launch["args"])) == (4096, 8192, 12288, 1)
