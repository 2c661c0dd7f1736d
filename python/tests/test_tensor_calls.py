"""Eager calls that are known, seen by a driver without a GPU: tensors of a library that speaks DLPack's C interface."""

import struct

PRELUDE = """
import ctypes, sys
from warptune._native import Error, Folder, Launcher, TensorCalls

class View(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]

class Tensor:
    def __init__(self, shape, address, strides=None, device_type=2, device=0):
        self.place = address, device_type, device
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)

def view(tensor, out):
    address, out[0].device_type, out[0].device = tensor.place
    out[0].data, out[0].byte_offset = address - 16, 16
    out[0].ndim, out[0].code, out[0].bits, out[0].lanes = len(tensor.shape), 2, 32, 1
    out[0].shape = ctypes.cast(tensor.shape, ctypes.POINTER(ctypes.c_int64))
    if tensor.strides is not None:
        out[0].strides = ctypes.cast(tensor.strides, ctypes.POINTER(ctypes.c_int64))
    return 0

def current_stream(device_type, device, stream):
    stream[0] = 48
    return 0

VIEW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(View))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_size_t))

class Library(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("unused", ctypes.c_void_p * 3), ("view", VIEW), ("stream", STREAM)]

def capsule(library):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(library), b"dlpack_exchange_api", None)

made = []
def empty(shape, strides, dtype):
    made.append((shape, strides, dtype))
    return Tensor(shape, 12288)

library = Library(1, 2, None, (ctypes.c_void_p * 3)(), VIEW(view), STREAM(current_stream))
problem, names = "rms_norm[tokens=5,hidden=64,dtype=fp32]", ["x", "weight", "y", "eps"]
launcher = Launcher(Folder(sys.argv[1]), problem, names, {}, False)
x, weight = Tensor((5, 64), 4096), Tensor((64,), 8192)

def known(library, types=(Tensor,)):
    calls = TensorCalls(types, library and capsule(library), empty)
    calls.add((x, weight), launcher, [((5, 64), (64, 1), "fp32")])
    return calls
"""


def test_a_known_call_makes_its_output_and_launches_on_the_current_stream(winners, driver):
    launches = driver(
        PRELUDE + "y = known(library)((x, weight), (0.5,))\n"
        "assert isinstance(y, Tensor) and made == [((5, 64), (64, 1), 'fp32')]\n"
        "assert isinstance(known(library)((Tensor((5, 64), 16384, (64, 1)), weight), (0.5,)), Tensor)\n",
        winners, args_bytes=32,
    )  # fmt: skip
    first, second = launches
    assert (first["kernel"], first["stream"]) == ("rms", 48)
    assert struct.unpack("<QQQif", bytes.fromhex(first["args"])) == (4096, 8192, 12288, 5, 0.5)
    assert struct.unpack("<QQQif", bytes.fromhex(second["args"])) == (16384, 8192, 12288, 5, 0.5)


def test_outputs_may_be_given_behind_the_inputs(winners, driver):
    (launch,) = driver(
        PRELUDE + "calls, y = TensorCalls((Tensor,), capsule(library), empty), Tensor((5, 64), 12288)\n"
        "calls.add((x, weight, y), launcher, [])\n"
        "assert calls((x, weight), (0.5,)) is None and calls((x, weight, Tensor((4, 64), 12288)), (0.5,)) is None\n"
        "assert calls((x, weight, y), (0.5,)) is True and not made\n",
        winners, args_bytes=32,
    )  # fmt: skip
    assert struct.unpack("<QQQif", bytes.fromhex(launch["args"])) == (4096, 8192, 12288, 5, 0.5)


def test_a_number_that_is_none_is_the_scale_of_attention(winners, driver):
    (launch,) = driver(PRELUDE + "known(library)((x, weight), (None,))\n", winners, args_bytes=32)
    assert struct.unpack("<QQQif", bytes.fromhex(launch["args"]))[-1] == 0.125


def test_other_calls_are_left_to_the_way_that_checks(winners, driver):
    launches = driver(
        PRELUDE + "calls = known(library)\n"
        "class Other(Tensor): pass\n"
        "for tensor in (Tensor((4, 64), 4096), Tensor((5, 64), 4096, (128, 1)), Tensor((5, 64), 4096, device_type=1),\n"
        "               Tensor((5, 64), 4096, device=1), Other((5, 64), 4096), None, 5):\n"
        "    assert calls((tensor, weight), (0.5,)) is None\n"
        "other = [Tensor(t.shape, t.place[0], device=1) for t in (x, weight)]\n"
        "calls.add(tuple(other), launcher, [((5, 64), (64, 1), 'fp32')])\n"
        "assert calls(tuple(other), (0.5,)) is None\n"  # the current device is 0
        "assert known(None)((x, weight), (0.5,)) is None\n"
        "assert known(Library(2, 0, None, (ctypes.c_void_p * 3)(), VIEW(view), STREAM(current_stream)))(\n"
        "    (x, weight), (0.5,)) is None\n",
        winners,
    )  # fmt: skip
    assert launches == []


def test_an_address_that_kernels_cannot_read_is_an_error(winners, driver):
    launches = driver(
        PRELUDE + "try:\n"
        "    known(library)((Tensor((5, 64), 4100), weight), (0.5,))\n"
        "except Error as e:\n"
        "    assert str(e) == \"'x' begins at an address that is no multiple of 16 bytes; a copy of it does\"\n"
        "else:\n"
        "    raise AssertionError\n",
        winners,
    )  # fmt: skip
    assert launches == []
