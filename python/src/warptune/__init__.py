"""Launches the kernels that warptune tuned, and runs the program: docs/python.md."""

import importlib.util

__version__ = "0.2.0"
__all__ = ["Error", "Ops", "PackedWeights", "compare", "load", "pack_weights", "read_csv", "report", "tune"]
_MODULES = {
    "Error": "_native",
    "Ops": "ops",
    "PackedWeights": "packed_weights",
    "compare": "program",
    "pack_weights": "packed_weights",
    "read_csv": "results",
    "report": "program",
    "tune": "program",
}


def __getattr__(name):
    """Imports on first use: warptune.text runs without the extension."""
    if name not in _MODULES:
        raise AttributeError(f"module 'warptune' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__():
    return sorted([*globals(), *_MODULES])


def load(path, *, torch=None, pdl=False):
    """The ops of a folder that `warptune export` wrote.

    `torch`: whether they take torch tensors and are registered with torch; by default where torch is installed. `pdl`:
    a kernel may start before the kernel ahead of it in the stream has ended, which then must write neither weights nor
    lengths, positions, tables or frequencies.
    """
    if torch is None:
        torch = importlib.util.find_spec("torch") is not None
    if not torch:
        from .ops import Ops

        return Ops(path, pdl)
    from .torch_ops import TorchOps

    return TorchOps(path, pdl)
