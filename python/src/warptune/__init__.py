"""Launches the kernels that warptune tuned, and runs the program: docs/python.md."""

import importlib.util

from ._native import Error
from .ops import Ops
from .program import compare, report, tune
from .results import read_csv

__version__ = "0.1.0"
__all__ = ["Error", "Ops", "compare", "load", "read_csv", "report", "tune"]


def load(path, *, torch=None, pdl=False):
    """The ops of a folder that `warptune export` wrote.

    `torch`: whether they take torch tensors and are registered with torch; by default where torch is installed. `pdl`:
    a kernel may start before the kernel ahead of it in the stream has ended, which then must write neither weights nor
    lengths, positions, tables or frequencies.
    """
    if torch is None:
        torch = importlib.util.find_spec("torch") is not None
    if not torch:
        return Ops(path, pdl)
    from .torch_ops import TorchOps

    return TorchOps(path, pdl)
