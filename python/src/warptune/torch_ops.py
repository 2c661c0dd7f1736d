"""The ops on torch tensors: called eagerly, and registered as torch ops so that torch.compile takes them."""

import torch

from . import specs
from .arrays import dtype_name
from .ops import Ops

_DTYPES = {dtype_name(dtype): dtype for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32)}
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_opened = []  # what the argument `folder` of the registered ops numbers: graphs hold numbers, not objects


class TorchOps(Ops):
    """Ops whose functions allocate their outputs and launch on torch's current stream.

    An eager call goes to the plan directly, since torch's dispatcher costs more than the launch. Where torch traces,
    the call is one of the ops `torch.ops.warptune.*`.
    """

    def __init__(self, path, pdl=False):
        super().__init__(path, pdl)
        self._number = len(_opened)
        _opened.append(self)

    def _run(self, spec, inputs, options, numbers, out, stream):
        if torch.compiler.is_compiling() or (type(inputs[0]) not in _PLAIN and isinstance(inputs[0], torch.Tensor)):
            results = getattr(torch.ops.warptune, spec.name)(self._number, *inputs, *options, *numbers)
            return results if out is None else _copied(results, out)
        if type(inputs[0]) not in _PLAIN:
            return super()._run(spec, inputs, options, numbers, out, stream)
        call = self._call(spec, inputs, options)
        device = inputs[0].device
        if out is None:
            outputs = [torch.empty(shape, dtype=_DTYPES[dtype], device=device) for _, shape, dtype in call.outputs]
        else:
            outputs = out if isinstance(out, tuple) else (out,)
            call.check_outputs(outputs)
        if stream is None:
            stream = torch._C._cuda_getCurrentRawStream(device.index)
        if torch._C._cuda_getDevice() == device.index:
            call(stream, inputs, outputs, numbers)
        else:
            with torch.cuda.device(device):
                call(stream, inputs, outputs, numbers)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _copied(results, out):
    if isinstance(out, tuple):
        return tuple(target.copy_(result) for target, result in zip(out, results, strict=True))
    return out.copy_(results)


def _split(spec, arguments):
    """The inputs, options and numbers of a registered op's arguments."""
    first, second = len(spec.inputs), len(spec.inputs) + len(spec.options)
    return arguments[:first], arguments[first:second], arguments[second:]


def _register(spec):
    mutated = {name.rstrip("?!") for name in spec.inputs if "!" in name}

    def launch(folder, *arguments):
        inputs, options, numbers = _split(spec, arguments)
        return _opened[folder]._run(spec, inputs, tuple(options), tuple(numbers), None, None)

    def fake(folder, *arguments):
        inputs, options, _ = _split(spec, arguments)
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
