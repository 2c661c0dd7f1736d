"""Quantized weights for `Ops.linear`, packed on the host in the layout that the kernels read."""

import re
from dataclasses import dataclass, replace

from . import _native
from .arrays import as_array, is_torch
from .problems import Shapes, require

_FORMAT = re.compile(r"(?:(int8|int4|fp8)(?::group=(0|32|64|128))?(?::activations=(fp8))?|(nvfp4|mxfp4|q[456]_k))")
_GROUPS = {"nvfp4": 16, "mxfp4": 32, "q4_k": 32, "q5_k": 32, "q6_k": 16}  # columns, where a format has one size
_SUPER_BYTES = {"q4_k": 144, "q5_k": 176, "q6_k": 210}  # of a super-block of 256 columns
_VALUES = {"int8": ("int8",), "int4": ("int8", "uint8"), "fp8": ("fp8", "uint8")}  # of others uint8
_SCALES = {"nvfp4": ("fp8", "uint8"), "mxfp4": ("e8m0", "uint8")}  # of others floating-point numbers


@dataclass(frozen=True)
class PackedWeights:
    """A quantized matrix [rows, columns] in the layout of kernels/linear/packed_weights.h, made by `pack_weights`.

    `zeros` is None where no group has a zero point, `order` where the columns are in order, `row_scales` but for nvfp4.
    """

    weights: str
    group: int
    rows: int
    columns: int
    weight: object
    scales: object
    zeros: object = None
    order: object = None
    row_scales: object = None
    activations: str = "same"

    @property
    def format(self):
        """The format as in `--weights`: `int4:group=128:zeros`."""
        has_group = self.weights not in _GROUPS and (self.group or self.weights == "int4")
        group = f":group={self.group}" if has_group else ""
        zeros, order = "" if self.zeros is None else ":zeros", "" if self.order is None else ":act_order"
        activations = "" if self.activations == "same" else f":activations={self.activations}"
        return f"{self.weights}{group}{zeros}{order}{activations}"

    def map(self, function):
        """The same matrix with `function` of each array: `packed.map(cupy.asarray)` copies it to a GPU."""
        arrays = ("weight", "scales", "zeros", "order", "row_scales")
        names = [name for name in arrays if getattr(self, name) is not None]
        return replace(self, **{name: function(getattr(self, name)) for name in names})


def pack_weights(values, scales, format, *, zero_points=None, g_idx=None, global_scale=1.0):
    """Packs a matrix of quantized weights [rows, columns], a byte each; a weight is (value - zero point) * scale.

    `format`: `int8`, `int4` or `fp8`, with `:group=32`, `64` or `128` where columns share a scale, fp8 also with
    `:activations=fp8`; or `nvfp4`, `mxfp4`, `q4_k`, `q5_k` or `q6_k`, whose groups have one size (docs/quantized.md).

    values: int8; of int4 int8 from -8 to 7, or uint8 from 0 to 15; of fp8 e4m3 or its codes in uint8; of nvfp4 and
    mxfp4 codes of e2m1 in uint8, from 0 to 15; of the last three the super-blocks of a GGUF file, uint8 [rows, bytes].
    scales: fp16 [rows, groups]; without groups fp32 [rows] or [rows, 1]; of fp8 with groups fp32, one per block of
    128 x 128; of nvfp4 e4m3, of mxfp4 e8m0, or their codes in uint8; None of super-blocks, which have them.
    zero_points: of int4, [rows, groups] in the dtype of the values; None: 0, of uint8 values 8.
    g_idx: int32 [columns], the group of each column, as GPTQ stores it.
    global_scale: of nvfp4, a number that multiplies all scales.

    torch tensors make torch tensors on the device of `values`; other arrays are on the host and make arrays there.
    """
    weights, group, activations = _parsed(format)
    given = {"values": values, "scales": scales, "zero_points": zero_points, "g_idx": g_idx}
    arrays = {name: _on_host(array, name) for name, array in given.items() if array is not None}
    require(weights == "nvfp4" or global_scale == 1, f"pack_weights: weights of {weights} have no global scale")
    has_blocks = weights in _SUPER_BYTES
    require(
        not has_blocks or scales is None, f"pack_weights: the blocks of {weights} have their scales; 'scales' is None"
    )
    require(has_blocks or scales is not None, f"pack_weights: weights of {weights} need 'scales'")
    shape, offset = _checked(weights, group, **arrays)
    address = [arrays[name].data_ptr() if name in arrays else 0 for name in given]
    tensors = _native.pack_weights(shape, address[0], offset, *address[1:], global_scale)
    packed = PackedWeights(weights, group, shape.rows, shape.columns, *tensors, activations=activations)
    if not is_torch(values):
        return packed
    import torch

    return packed.map(lambda array: torch.from_dlpack(array).to(values.device))


def _parsed(format):
    match = _FORMAT.fullmatch(format)
    require(
        match,
        f"pack_weights: '{format}' is no format of weights; it must be int8, int4 or fp8, with :group=32, 64 or 128 "
        "where groups of columns have a scale, fp8 also with :activations=fp8, or nvfp4, mxfp4, q4_k, q5_k or q6_k",
    )
    if match[4]:
        return match[4], _GROUPS[match[4]], "same"
    weights, group, activations = match[1], match[2], match[3] or "same"
    require(
        weights == "fp8" or activations == "same",
        f"pack_weights: '{format}' has activations of fp8; they need weights of fp8",
    )
    group = int(group) if group else 128 * (weights == "int4")
    require(
        weights != "fp8" or group in (0, 128),
        f"pack_weights: '{format}' has groups of {group}; those of fp8 are 128, blocks of 128 x 128",
    )
    return weights, group, activations


def _on_host(array, name):
    """`array` in the memory of the host; a copy where it is a torch tensor elsewhere."""
    if is_torch(array):
        return array.detach().cpu().contiguous()
    array = as_array(array, name)
    require(array.device == "cpu", f"pack_weights: '{name}' is on {array.device}; weights are packed on the host")
    require(array.contiguous, f"pack_weights: '{name}' is not contiguous; a copy of it is")
    return array


def _checked(weights, group, values, scales=None, zero_points=None, g_idx=None):
    """The shape of the matrix, and what makes values of int4 nibbles."""
    s = Shapes("pack_weights")
    dtype = s.match("values", values, "rows columns", _VALUES.get(weights, ("uint8",)))
    rows, columns = s["rows"], s["columns"]
    if block := _SUPER_BYTES.get(weights):
        require(
            columns % block == 0,
            f"pack_weights: 'values' has rows of {columns} bytes; a super-block of {weights} has {block}",
        )
        columns = columns // block * 256
    require(
        group == 0 or columns % group == 0,
        f"pack_weights: 'values' has {columns} columns; groups of {group} do not divide them",
    )
    shape = _native.QuantizedShape(weights, group, rows, columns)
    if scales is not None:
        vector = group == 0 and len(scales.shape) == 1
        pattern = f"{rows}" if vector else f"{shape.scale_rows} {shape.groups}"
        s.match("scales", scales, pattern, _SCALES.get(weights) or f"fp{8 * shape.scale_bytes}")
    if zero_points is not None:
        require(weights == "int4", f"pack_weights: weights of {weights} have no zero points; those of int4 do")
        s.match("zero_points", zero_points, f"{rows} {shape.groups}", dtype)
    if g_idx is not None:
        is_integer = weights in ("int4", "int8")
        require(is_integer and group != 0, "pack_weights: 'g_idx' needs int4 or int8 with a group")
        s.match("g_idx", g_idx, "columns", "int32")
    return shape, 8 if weights == "int4" and dtype == "int8" else 0
