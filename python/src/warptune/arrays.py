"""What an op takes: torch tensors, and arrays that speak DLPack, the buffer protocol or __cuda_array_interface__."""

from dataclasses import dataclass

from ._native import dlpack_view

_CUDA_ARRAY_TYPES = {
    "<f4": "fp32",
    "<f2": "fp16",
    "<i4": "int32",
    "<i8": "int64",
    "|i1": "int8",
    "|u1": "uint8",
    "<u4": "uint32",
    "<u8": "uint64",
}
_TORCH_TYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e8m0fnu": "e8m0",
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array of another library, with the names that torch has for the same."""

    address: int
    shape: tuple
    dtype: str
    device: str
    contiguous: bool

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return self.contiguous


def is_torch(value):
    return type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "__torch_function__")


def dtype_name(dtype):
    """warptune's name of a dtype of torch or of an Array: `bf16`."""
    name = str(dtype).removeprefix("torch.")
    return _TORCH_TYPES.get(name, name)


def as_array(value, name):
    """`value` with address, shape, dtype and device; a torch tensor as it is."""
    if isinstance(value, Array) or is_torch(value):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return _from_cuda_array(value.__cuda_array_interface__, name)
    try:
        address, shape, strides, dtype, device = dlpack_view(value)
    except TypeError:
        raise TypeError(
            f"'{name}' is a {type(value).__name__}; it must be a torch tensor, or an array with __dlpack__ or "
            "__cuda_array_interface__"
        ) from None
    return Array(address, shape, dtype, device, _is_dense(shape, strides))


def _from_cuda_array(interface, name):
    dtype = _CUDA_ARRAY_TYPES.get(interface["typestr"])
    if dtype is None:
        raise TypeError(
            f"'{name}' has the typestr {interface['typestr']!r}; it must be one of {', '.join(_CUDA_ARRAY_TYPES)} "
            "(bf16 and fp8 come by DLPack)"
        )
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is not None:
        size = int(interface["typestr"][2:])
        strides = tuple(stride // size for stride in strides)
    dense = strides is None or _is_dense(shape, strides)
    return Array(interface["data"][0], shape, dtype, "cuda", dense)


def _is_dense(shape, strides):
    """Whether elements follow each other; the stride of an axis of one element has no meaning."""
    size = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != size:
            return False
        size *= length
    return True
