"""The reference of gelu_mul, on arrays of fp64."""
import numpy as np


def gelu_mul(gate, up):
    return 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) * up
