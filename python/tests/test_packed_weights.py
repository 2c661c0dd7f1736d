"""Packing quantized weights on the host, and the problems and launches of `linear` on them."""

import struct

import numpy as np
import pytest

import warptune

ROWS, COLUMNS = 19, 320  # neither is a multiple of a block
INT4, INT8, G4 = np.zeros((8, 64), np.uint8), np.zeros((8, 64), np.int8), np.ones((8, 2), np.float16)
ONE = np.ones(8, np.float32)


def rng():
    return np.random.default_rng(1)


def stored(packed):
    """The arrays of packed weights for NumPy."""
    return packed.map(np.asarray)


def unpacked(packed):
    """The stored bytes or nibbles [rows, columns], read as the header of kernels/linear/packed_weights.h describes."""
    bits = 8 if packed.weights in ("int8", "fp8", "q5_k", "q6_k") else 4
    per_block = 512 // bits
    blocks = packed.weight.view(np.uint8).reshape(-(-packed.rows // 8), -(-packed.columns // per_block), 8, 4, 16)
    out = np.zeros((blocks.shape[0] * 8, blocks.shape[1] * per_block), np.uint8)
    for fragment in range(per_block // 16):
        for lane in range(4):
            for i, column in enumerate((2 * lane, 2 * lane + 1, 2 * lane + 8, 2 * lane + 9)):
                if bits == 8:  # of a word of 4 bytes, i and i + 2 are adjacent columns
                    values = blocks[..., lane, fragment * 4 + i // 2 + i % 2 * 2]
                else:  # of a word of 8 nibbles, i and i + 4
                    nibble = fragment % 2 * 2 + i // 2 + i % 2 * 4
                    values = blocks[..., lane, fragment // 2 * 4 + nibble // 2] >> nibble % 2 * 4 & 15
                at = (np.arange(blocks.shape[1]) * per_block + fragment * 16 + column)[:, None]
                out.reshape(-1, 8, out.shape[1])[:, np.arange(8), at] = values
    return out


def by_row(packed, array):
    """Scales or zero points [rows, groups] of packed ones."""
    groups = packed.columns // packed.group
    return array.reshape(-1, groups, 8).transpose(0, 2, 1).reshape(-1, groups)[: packed.rows]


@pytest.mark.parametrize("weights", ["int8", "int4", "fp8"])
def test_values_are_where_the_kernels_read_them(weights):
    values = rng().integers(0, 16 if weights == "int4" else 127, (ROWS, COLUMNS), np.uint8)
    given = values.astype(np.int8) - (8 if weights == "int4" else 0) if weights != "fp8" else values
    group = ":group=0" if weights == "int4" else ""
    packed = stored(warptune.pack_weights(given, np.ones(ROWS, np.float32), weights + group))
    out = unpacked(packed)
    np.testing.assert_array_equal(out[:ROWS, :COLUMNS], values + (128 if weights == "int8" else 0))
    assert not out[ROWS:].any() and not out[:, COLUMNS:].any()
    assert (packed.format, packed.rows, packed.columns) == (weights + group, ROWS, COLUMNS)
    np.testing.assert_array_equal(packed.scales, np.ones(ROWS, np.float32))


def test_scales_and_zero_points_of_groups_are_by_eight_rows():
    values = rng().integers(0, 16, (ROWS, COLUMNS), np.uint8)
    scales = rng().random((ROWS, 10)).astype(np.float16)
    zeros = rng().integers(0, 17, (ROWS, 10), np.uint8)
    packed = stored(warptune.pack_weights(values, scales, "int4:group=32", zero_points=zeros))
    assert packed.format == "int4:group=32:zeros" and packed.scales.dtype == np.float16
    np.testing.assert_array_equal(by_row(packed, packed.scales), scales)
    np.testing.assert_array_equal(by_row(packed, packed.zeros), zeros.astype(np.int8) - 8)
    signed = stored(warptune.pack_weights(
        values.astype(np.int8) - 8, scales, "int4:group=32", zero_points=zeros.astype(np.int8) - 8
    ))  # fmt: skip
    np.testing.assert_array_equal(signed.weight, packed.weight)
    np.testing.assert_array_equal(signed.zeros, packed.zeros)


@pytest.mark.parametrize(("weights", "group"), [("nvfp4", 16), ("mxfp4", 32)])
def test_codes_of_fp4_and_their_scales_are_where_the_kernels_read_them(weights, group):
    columns = 256  # two blocks
    values = rng().integers(0, 16, (ROWS, columns), np.uint8)
    scales = rng().integers(0, 127, (ROWS, columns // group), np.uint8)
    more = {"global_scale": 0.5} if weights == "nvfp4" else {}
    packed = stored(warptune.pack_weights(values, scales, weights, **more))
    assert (packed.format, packed.group) == (weights, group)
    np.testing.assert_array_equal(unpacked(packed)[:ROWS], values)
    by_block = packed.scales.view(np.uint8).reshape(-1, 2, 8, 128 // group).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(by_block.reshape(-1, columns // group)[:ROWS], scales)
    assert packed.row_scales is None if weights == "mxfp4" else packed.row_scales.tolist() == [0.5] * ROWS


@pytest.mark.parametrize(
    ("weights", "size", "steps"), [("q4_k", 144, [0, 2]), ("q5_k", 176, [0, 2]), ("q6_k", 210, [208])]
)
def test_super_blocks_of_gguf_are_where_the_kernels_read_them(weights, size, steps):
    rows, blocks = 16, 3
    given = rng().integers(0, 256, (rows, blocks, size), np.uint8)
    for at in steps:
        given[..., at + 1] &= 0x3F  # finite
    packed = stored(warptune.pack_weights(given.reshape(rows, -1), None, weights))
    assert (packed.format, packed.rows, packed.columns) == (weights, rows, 256 * blocks)
    values = unpacked(packed).reshape(rows, blocks, 256)
    if weights != "q6_k":
        nibbles = given[..., -128:].reshape(rows, blocks, 4, 1, 32) >> np.array([[0], [4]], np.uint8) & 15
        want = nibbles.reshape(rows, blocks, 8, 32)
        if weights == "q5_k":
            want |= (given[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
        np.testing.assert_array_equal(values, want.reshape(rows, blocks, 256))
    else:
        assert values.min() == 0 and values.max() == 63
    # Of eight rows of a super-block: two bytes for each 32 columns, then the steps.
    scales = packed.scales.view(np.uint8).reshape(rows // 8, blocks, -1)
    kept = np.stack([given[..., at : at + 2] for at in steps], -2).reshape(rows // 8, 8, blocks, -1)
    np.testing.assert_array_equal(scales[..., 128:], kept.transpose(0, 2, 1, 3).reshape(rows // 8, blocks, -1))
    if weights == "q6_k":  # those of a block of 64 columns are together
        of_groups = given[..., 192:208].reshape(rows // 8, 8, blocks, 4, 4).transpose(0, 2, 3, 1, 4)
        np.testing.assert_array_equal(scales[..., :128], of_groups.reshape(rows // 8, blocks, -1))


def test_columns_of_a_group_are_adjacent():
    values = rng().integers(-128, 128, (8, 64), np.int8)
    scales = np.ones((8, 2), np.float16)
    packed = stored(warptune.pack_weights(values, scales, "int8:group=32", g_idx=np.arange(64, dtype=np.int32) % 2))
    order = [*range(0, 64, 2), *range(1, 64, 2)]
    assert packed.order.tolist() == order and packed.format == "int8:group=32:act_order"
    np.testing.assert_array_equal((unpacked(packed) ^ 128).view(np.int8), values[:, order])
    in_order = warptune.pack_weights(values, scales, "int8:group=32", g_idx=np.arange(64, dtype=np.int32) // 32)
    assert in_order.order is None and in_order.format == "int8:group=32"


def test_scales_of_rows_may_be_a_column():
    scales = np.arange(8, dtype=np.float32)
    for given in (scales, scales[:, None]):
        assert stored(warptune.pack_weights(INT8, given, "int8")).scales.tolist() == scales.tolist()


def test_blocks_of_fp8_have_a_scale_each():
    scales = np.arange(6, dtype=np.float32).reshape(2, 3)
    packed = stored(warptune.pack_weights(np.zeros((130, 384), np.uint8), scales, "fp8:group=128"))
    assert packed.scales.tolist() == [0, 1, 2, 3, 4, 5] and packed.scales.dtype == np.float32


@pytest.mark.parametrize(
    ("values", "scales", "format", "more", "sentence"),
    [
        (INT4, G4, "int3", {}, "'int3' is no format of weights; it must be int8, int4 or fp8, with :group=32, 64 or"),
        (INT4, G4, "int4:group=16", {}, "'int4:group=16' is no format of weights"),
        (INT8, ONE, "int8:activations=fp8", {}, "'int8:activations=fp8' has activations of fp8; they need weights of"),
        (INT8, ONE, "fp8:group=64", {}, "'fp8:group=64' has groups of 64; those of fp8 are 128, blocks of 128 x 128"),
        (INT4, G4, "int4", {}, "'values' has 64 columns; groups of 128 do not divide them"),
        (INT4[0], G4, "int4:group=32", {}, r"'values' has the shape \[64\]; it must be \[rows, columns\]"),
        (INT4, G4, "int8:group=32", {}, "'values' has the dtype uint8; it must be int8"),
        (ONE[:, None], G4, "int4:group=32", {}, "'values' has the dtype fp32; it must be int8 or uint8"),
        (INT4, G4[:, :1], "int4:group=32", {}, r"'scales' has the shape \[8, 1\]; it must be \[8, 2\]"),
        (INT4, G4[0], "int4:group=32", {}, r"'scales' has the shape \[2\]; it must be \[8, 2\]"),
        (INT8, ONE[:7], "int8", {}, r"'scales' has the shape \[7\]; it must be \[8\]"),
        (INT8, G4[:, 0], "int8", {}, "'scales' has the dtype fp16; it must be fp32"),
        (INT4, G4.astype(np.float32), "int4:group=32", {}, "'scales' has the dtype fp32; it must be fp16"),
        (INT4, G4 * np.inf, "int4:group=32", {}, "'scales' has a scale that is not finite"),
        (INT8, ONE * np.nan, "int8", {}, "'scales' has a scale that is not finite"),
        (INT4 + 16, G4, "int4:group=32", {}, "'values' has 16; those of int4 are 0 to 15"),
        (INT8 - 9, G4, "int4:group=32", {}, "'values' has -9; those of int4 are -8 to 7"),
        (INT8 + 8, G4, "int4:group=32", {}, "'values' has 8; those of int4 are -8 to 7"),
        (INT4 + 0xFF, ONE, "fp8", {}, "'values' has a NaN"),
        (INT4.T, ONE, "fp8", {}, "'values' is not contiguous; a copy of it is"),
        (INT8, ONE, "int8", {"zero_points": INT8[:, :1]}, "weights of int8 have no zero points; those of int4 do"),
        (INT4, G4, "int4:group=32", {"zero_points": INT8[:, :2]}, "'zero_points' has the dtype int8; it must be uint8"),
        (INT4, G4, "int4:group=32", {"zero_points": INT4[:, :2] + 17}, "'zero_points' has 17; they are 0 to 16"),
        (INT8, ONE, "int8", {"g_idx": np.zeros(64, np.int32)}, "'g_idx' needs int4 or int8 with a group"),
        (INT4, G4, "int4:group=32", {"g_idx": np.zeros(64, np.int32)}, "a group of 64 columns; each must have 32"),
        (INT4, G4, "int4:group=32", {"g_idx": np.full(64, 2, np.int32)}, "has the group 2; groups are 0 to 1"),
        (INT4, G4, "nvfp4:group=16", {}, "'nvfp4:group=16' is no format of weights"),
        (INT4 + 16, INT4[:, :4], "nvfp4", {}, "'values' has 16; those of e2m1 are 0 to 15"),
        (INT8, INT4[:, :4], "nvfp4", {}, "'values' has the dtype int8; it must be uint8"),
        (INT4, INT4[:, :2], "nvfp4", {}, r"'scales' has the shape \[8, 2\]; it must be \[8, 4\]"),
        (INT4, G4, "mxfp4", {}, "'scales' has the dtype fp16; it must be e8m0 or uint8"),
        (INT4, INT4[:, :4] + 128, "nvfp4", {}, "'scales' has a scale that is not finite, or negative"),
        (INT4, INT4[:, :2] + 255, "mxfp4", {}, "'scales' has a scale that is not finite"),
        (INT4, INT4[:, :2], "mxfp4", {"global_scale": 2}, "weights of mxfp4 have no global scale"),
        (INT4, INT4[:, :4], "nvfp4", {"global_scale": float("nan")}, "'global_scale' is not finite"),
        (INT4, None, "int8", {}, "weights of int8 need 'scales'"),
        (INT4, G4, "q4_k", {}, "the blocks of q4_k have their scales; 'scales' is None"),
        (INT4, None, "q4_k", {}, "'values' has rows of 64 bytes; a super-block of q4_k has 144"),
        (np.full((8, 210), 255, np.uint8), None, "q6_k", {}, "'values' has a scale that is not finite"),
        (INT4, INT4[:, :4], "nvfp4", {"g_idx": np.zeros(64, np.int32)}, "'g_idx' needs int4 or int8 with a group"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(values, scales, format, more, sentence):
    more = {name: np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for name, a in more.items()}
    with pytest.raises((ValueError, TypeError), match="^pack_weights: .*" + sentence):
        warptune.pack_weights(values, scales if scales is None else np.ascontiguousarray(scales), format, **more)


def test_memory_of_a_gpu_is_one_sentence():
    class OnGpu:
        __cuda_array_interface__ = {"shape": (8, 64), "typestr": "|u1", "data": (4096, False), "version": 3}

    with pytest.raises(ValueError, match="'values' is on cuda; weights are packed on the host"):
        warptune.pack_weights(OnGpu(), G4, "int4:group=32")


def test_the_format_is_part_of_the_problem(winners):
    ops = warptune.load(winners, torch=False)
    x = np.zeros((2, 64), np.float16)
    packed = warptune.pack_weights(INT4, G4, "int4:group=32", zero_points=np.ascontiguousarray(INT4[:, :2]))
    assert ops.problem("linear", x, packed) == (
        "linear[tokens=2,in=64,out=8,bias=no,weights=int4,group=32,zeros=yes,dtype=fp16]"
    )
    rows = warptune.pack_weights(INT8, ONE, "int8")
    fused = {"norm_weight": x[0], "swiglu": True}
    assert ops.problem("linear", x, rows, **fused) == (
        "linear[tokens=2,in=64,out=4,bias=no,prologue=rms_norm,epilogue=swiglu,weights=int8,dtype=fp16]"
    )
    with pytest.raises(ValueError, match=r"'x' has the shape \[2, 32\]; it must be \[..., in\] with in = 64"):
        ops.problem("linear", np.zeros((2, 32), np.float16), packed)


def test_activations_of_many_tokens_are_rounded(winners):
    ops = warptune.load(winners, torch=False)
    values = np.zeros((32, 128), np.uint8)
    packed = stored(warptune.pack_weights(values, np.ones(32, np.float32), "fp8:activations=fp8"))
    assert packed.format == "fp8:activations=fp8"
    few, many = np.zeros((64, 128), np.float16), np.zeros((65, 128), np.float16)
    assert ops.problem("linear", few, packed).endswith("out=32,bias=no,weights=fp8,dtype=fp16]")
    assert ops.problem("linear", many, packed).endswith("out=32,bias=no,weights=fp8,activations=fp8,dtype=fp16]")
    with pytest.raises(ValueError, match="x in fp8 takes no 'norm_weight' from 65 tokens on"):
        ops.problem("linear", many, packed, norm_weight=np.zeros(128, np.float16))


PRELUDE = """
import sys, numpy as np, warptune
class Fake:
    def __init__(self, shape, address, typestr="<f4"):
        self.shape = shape
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}
ops = warptune.load(sys.argv[1], torch=False)
def on_gpu(packed):  # at 8192, 16384, ..
    copies = []
    def copy(array):
        array = np.asarray(array)
        copies.append(Fake(array.shape, 8192 * (len(copies) + 1), array.dtype.str))
        return copies[-1]
    return packed.map(copy)
"""


def test_a_launch_gets_the_tensors_of_packed_weights(winners, driver):
    (launch,) = driver(
        PRELUDE + "values, g_idx = np.zeros((32, 64), np.uint8), np.arange(64, dtype=np.int32) % 2\n"
        "packed = on_gpu(warptune.pack_weights(values, np.ones((32, 2), np.float16), 'int4:group=32',\n"
        "                                      zero_points=np.zeros((32, 2), np.uint8), g_idx=g_idx))\n"
        "assert packed.format == 'int4:group=32:zeros:act_order'\n"
        "x, norm, residual, y = Fake((3, 64), 16), Fake((64,), 32), Fake((3, 32), 48), Fake((3, 32), 64)\n"
        "assert ops.linear(x, packed, norm_weight=norm, eps=0.5, residual=residual, out=y) is y\n",
        winners, args_bytes=72,
    )  # fmt: skip
    assert launch["kernel"] == "gemv_int4"
    assert struct.unpack("<QQQQQQQQif", bytes.fromhex(launch["args"])) == (
        16, 8192, 64, 32, 48, 16384, 24576, 32768, 3, 0.5,
    )  # fmt: skip


def test_a_launch_gets_the_scales_of_rows(winners, driver):
    (launch,) = driver(
        PRELUDE + "packed = on_gpu(warptune.pack_weights(np.zeros((32, 64), np.uint8), np.zeros((32, 4), np.uint8),\n"
        "                                      'nvfp4', global_scale=0.5))\n"
        "ops.linear(Fake((3, 64), 16), packed, out=Fake((3, 32), 64))\n",
        winners, args_bytes=48,
    )  # fmt: skip
    assert launch["kernel"] == "gemv_nvfp4"
    assert struct.unpack("<QQQQQi", bytes.fromhex(launch["args"])[:44]) == (16, 8192, 64, 16384, 24576, 3)
