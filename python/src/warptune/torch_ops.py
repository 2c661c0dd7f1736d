"""The ops on torch tensors: called eagerly, and registered as torch ops so that torch.compile takes them."""

import torch

from . import specs
from ._native import TensorCalls
from .arrays import dtype_name
from .ops import Ops, complete

_DTYPES = {dtype_name(dtype): dtype for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32)}
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_is_compiling = torch.compiler.is_compiling
# Torch's own fast accessors, which builds without CUDA lack.
_current_device = getattr(torch._C, "_cuda_getDevice", None)
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# Reads tensors and the current stream from C; versions before 2.10 lack it.
_library = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)


def _empty_strided(shape, strides, dtype):
    return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")


_empty = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "_empty_strided_cuda", _empty_strided)
_opened = []  # what the argument `folder` of the registered ops numbers: graphs hold numbers, not objects


class TorchOps(Ops):
    """Ops whose functions allocate their outputs and launch on torch's current stream.

    An eager call goes to the plan directly, since torch's dispatcher costs more than the launch. Where torch traces,
    the call is one of the ops `torch.ops.warptune.*`.
    """

    def __init__(self, path, pdl=False):
        super().__init__(path, pdl)
        self._known = {}  # TensorCalls by op, options and whether they allocate their outputs
        # Compiled code may copy a cache right before a call. A kernel with PDL reads old keys and values before it
        # waits for that copy, so traced calls have none.
        self._traced = TorchOps(path) if pdl else self
        self._number = len(_opened)
        _opened.append(self._traced)

    # This is the cost of an eager call: where the call is known, the rest of it is native.
    def _run(self, spec, inputs, options, numbers, out, stream):
        if stream is None and not _is_compiling():
            calls = self._known.get((spec.name, options, out is None))
            if calls is not None:
                if out is None:
                    results = calls(inputs, numbers)
                    if results is not None:
                        return results
                elif calls((*inputs, *_tuple_of(out)), numbers):
                    return out
        return self._run_first(spec, inputs, options, complete(numbers, inputs[0]), out, stream)

    def _run_first(self, spec, inputs, options, numbers, out, stream):
        """A call that is not known yet, or that gives its stream."""
        first = inputs[0]
        if _is_compiling() or type(first) not in _PLAIN:
            return self._run_elsewhere(spec, inputs, options, numbers, out, stream)
        call = self._call(spec, inputs, options)
        if out is not None:
            outputs = _tuple_of(out)
            call.check_outputs(outputs)
        else:
            outputs = tuple([first.new_empty(shape, dtype=_DTYPES[dtype]) for _, shape, dtype in call.outputs])
        index = first.device.index
        pointers = [tensor.data_ptr() for tensor in (*inputs, *outputs) if tensor is not None]
        if _current_device() == index:
            call.launcher(_current_stream(index) if stream is None else stream, *pointers, *numbers)
        else:
            with torch.cuda.device(index):
                call.launcher(_current_stream(index) if stream is None else stream, *pointers, *numbers)
        if _library is not None and stream is None:
            allocates = out is None
            new = TensorCalls(tuple(_PLAIN), _library, _empty)
            calls = self._known.setdefault((spec.name, options, allocates), new)
            if allocates:
                calls.add(inputs, call.launcher, [(tuple(o.shape), o.stride(), o.dtype) for o in outputs])
            else:
                calls.add((*inputs, *outputs), call.launcher, [])
        return outputs[0] if len(outputs) == 1 else outputs

    def _run_elsewhere(self, spec, inputs, options, numbers, out, stream):
        """A call that torch traces, or of arrays that are not torch's."""
        if not (_is_compiling() or isinstance(inputs[0], torch.Tensor)):
            return super()._run(spec, inputs, options, numbers, out, stream)
        results = getattr(torch.ops.warptune, spec.name)(self._number, *inputs, *options, *numbers)
        return results if out is None else _copied(results, out)


def _tuple_of(out):
    return out if isinstance(out, tuple) else (out,)


def _copied(results, out):
    if isinstance(out, tuple):
        return tuple(target.copy_(result) for target, result in zip(out, results, strict=True))
    return out.copy_(results)


def _split(spec, arguments):
    """The inputs, options and numbers of a registered op's arguments."""
    first, second = len(spec.inputs), len(spec.inputs) + len(spec.options)
    return arguments[:first], arguments[first:second], arguments[second:]


def _expect_own_memory(op, name, tensor):
    """Inductor of torch 2.11 copies a mutated view from and to the wrong place."""
    if tensor.storage_offset() != 0 or tensor.untyped_storage().nbytes() != tensor.nbytes:
        raise ValueError(
            f"{op}: '{name}' is a view into a larger tensor; torch.compile corrupts views that an op writes, so it "
            "must be a tensor of its own"
        )


def _register(spec):
    mutated = {name.rstrip("?!") for name in spec.inputs if "!" in name}

    def launch(folder, *arguments):
        inputs, options, numbers = _split(spec, arguments)
        return _opened[folder]._run(spec, inputs, tuple(options), tuple(numbers), None, None)

    def fake(folder, *arguments):
        inputs, options, _ = _split(spec, arguments)
        for name, tensor in zip(spec.input_names, inputs):
            if name in mutated and tensor is not None:
                _expect_own_memory(spec.name, name, tensor)
        call = spec.shapes(*inputs, *options)
        outputs = [
            inputs[0].new_empty(tuple(shape), dtype=_DTYPES[dtype or call.dtype])
            for shape, dtype in call.outputs.values()
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    op = torch.library.custom_op(f"warptune::{spec.name}", launch, mutates_args=mutated, schema=spec.schema)
    op.register_fake(fake)


for _spec in specs.ALL:
    _register(_spec)
