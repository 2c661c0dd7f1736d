"""The ops with a function of their own: what a call passes, in which order, and the members of the args it sets."""

from dataclasses import dataclass
from typing import Callable

from . import problems


@dataclass(frozen=True)
class Spec:
    """An op as it is called: `inputs`, then `options` (which select the problem), then `numbers` (floats of a launch).

    An input with "?" may be None, one with "!" is also written. `options` and `numbers`
    map names to the types of torch's schemas. `members` renames inputs to the members of the args struct.
    """

    name: str
    inputs: tuple
    outputs: tuple
    shapes: Callable  # (inputs.., options..) -> problems.Call
    options: tuple = ()
    numbers: tuple = ()
    members: tuple = ()

    @property
    def input_names(self):
        return tuple(name.rstrip("?!") for name in self.inputs)

    def member(self, name):
        return dict(self.members).get(name, name)

    @property
    def schema(self):
        """The schema of the torch op; `folder` says which exported folder."""
        arguments = ["int folder"]
        for i, name in enumerate(self.inputs):
            kind = "Tensor" + (f"({chr(ord('a') + i)}!)" if "!" in name else "") + ("?" if name[-1] == "?" else "")
            arguments.append(f"{kind} {name.rstrip('?!')}")
        arguments += [f"{kind} {name}" for name, kind in self.options]
        arguments += [f"float {name}" for name in self.numbers]
        returns = ", ".join(["Tensor"] * len(self.outputs))
        return f"({', '.join(arguments)}) -> {returns if len(self.outputs) == 1 else f'({returns})'}"


RMS_NORM = Spec("rms_norm", ("x", "weight"), ("y",), problems.rms_norm, numbers=("eps",))
ADD_RMS_NORM = Spec(
    "add_rms_norm", ("x", "residual", "weight"), ("y", "residual_out"), problems.add_rms_norm, numbers=("eps",)
)
SWIGLU = Spec("swiglu", ("gate_up",), ("y",), problems.swiglu)
LINEAR = Spec(
    "linear", ("x", "weight", "bias?", "norm_weight?", "residual?"), ("y",), problems.linear, (("swiglu", "bool"),)
)
LINEAR_NORM = Spec(  # with the eps of its norm
    "linear_norm", LINEAR.inputs, ("y",), problems.linear, LINEAR.options, ("eps",)
)
LINEAR_PACKED = Spec(
    "linear_packed",
    ("x", "weight", "scales", "zeros?", "order?", "row_scales?", "bias?", "norm_weight?", "residual?"),
    ("y",),
    problems.linear_packed,
    (
        ("weights", "str"),
        ("activations", "str"),
        ("group", "int"),
        ("rows", "int"),
        ("columns", "int"),
        ("swiglu", "bool"),
    ),
)
LINEAR_PACKED_NORM = Spec(
    "linear_packed_norm", LINEAR_PACKED.inputs, ("y",), problems.linear_packed, LINEAR_PACKED.options, ("eps",)
)
ATTENTION_DECODE = Spec(
    "attention_decode",
    ("q", "k_cache", "v_cache", "lengths", "block_table?", "k_scale?", "v_scale?", "alibi_slopes?", "score_bias?"),
    ("out",),
    problems.attention_decode,
    (("context", "int"), ("window", "int"), ("deterministic", "bool")),
    ("scale",),
)
ATTENTION_DECODE_APPEND = Spec(
    "attention_decode_append",
    ("qkv", "k_cache!", "v_cache!", "lengths", "inv_freq", "bias?", "block_table?", "k_scale!?", "v_scale!?"),
    ("out",),
    problems.attention_decode_append,
    (("context", "int"), ("window", "int"), ("style", "str")),
    ("scale",),
    (("qkv", "q"),),
)
ATTENTION_PREFILL = Spec(
    "attention_prefill",
    ("q", "k", "v", "cu_seqlens", "kv_lens", "seqstart_k?", "block_table?", "alibi_slopes?"),
    ("out",),
    problems.attention_prefill,
    (("q_len", "int"), ("kv_len", "int"), ("causal", "bool"), ("window", "int")),
    ("scale",),
    (("k", "k_cache"), ("v", "v_cache")),
)
ROPE_APPEND = Spec(
    "rope_append",
    (
        "qkv",
        "k_cache!",
        "v_cache!",
        "sequence",
        "position",
        "inv_freq",
        "bias?",
        "block_table?",
        "k_scale!?",
        "v_scale!?",
    ),
    ("q",),
    problems.rope_append,
    (("style", "str"),),
)
TOP_K = Spec(
    "top_k",
    ("logits", "rng"),
    ("ids",),
    problems.top_k,
    (("k", "int"), ("drop_unlikely", "bool")),
    ("temperature", "p"),
)
TOP_K_MIN_P = Spec("top_k_min_p", TOP_K.inputs, ("ids",), problems.top_k, TOP_K.options, ("temperature", "p", "min_p"))

ALL = (
    RMS_NORM,
    ADD_RMS_NORM,
    SWIGLU,
    LINEAR,
    LINEAR_NORM,
    LINEAR_PACKED,
    LINEAR_PACKED_NORM,
    ATTENTION_DECODE,
    ATTENTION_DECODE_APPEND,
    ATTENTION_PREFILL,
    ROPE_APPEND,
    TOP_K,
    TOP_K_MIN_P,
)
