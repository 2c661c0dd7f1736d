"""The problem of a call: dims from the shapes of its arguments, what it writes, and one sentence if shapes disagree.

Functions of this file see shapes and dtypes only, so that torch's fake tensors and NumPy arrays serve as well.
"""

from dataclasses import dataclass, field

from ._native import QuantizedShape
from .arrays import dtype_name

NEAR_POSITIONS = 1 << 17  # kernels/common/near_positions.h


@dataclass
class Call:
    """A problem with the outputs of a call, {name: (shape, dtype)}, and the members of the args that shapes decide.

    The dtype of an output is None where it is that of the problem.
    """

    op: str
    dims: dict
    dtype: str
    outputs: dict
    constants: dict = field(default_factory=dict)

    @property
    def problem(self):
        dims = "".join(f"{name}={value}," for name, value in self.dims.items())
        return f"{self.op}[{dims}dtype={self.dtype}]"


class Shapes:
    """Binds the names in patterns such as "tokens hidden" to the shapes of the tensors of one op.

    A word is a name, a number that the axis must have, or "_" for any length; "..." are any leading axes, whose product
    is bound to "tokens".
    """

    def __init__(self, op):
        self.op = op
        self.bound = {}

    def __getitem__(self, word):
        return self.bound[word]

    def match(self, name, tensor, pattern, dtype=None):
        """Returns the dtype, which must be `dtype` or one of them; None: any."""
        words, shape = pattern.split(), tuple(tensor.shape)
        if words[0] == "...":
            if len(shape) < len(words):
                self._refuse(name, shape, pattern)
            rows = 1
            for length in shape[: len(shape) - len(words) + 1]:
                rows *= length
            words, shape_left = ["tokens", *words[1:]], (rows, *shape[len(shape) - len(words) + 1 :])
        else:
            shape_left = shape
        if len(shape_left) != len(words):
            self._refuse(name, shape, pattern)
        for word, length in zip(words, shape_left):
            if word == "_":
                continue
            if word.isdigit():
                if int(word) != length:
                    self._refuse(name, shape, pattern)
            elif self.bound.setdefault(word, length) != length:
                self._refuse(name, shape, pattern)
        found, wanted = dtype_name(tensor.dtype), (dtype,) if isinstance(dtype, str) else dtype
        if wanted is not None and found not in wanted:
            raise TypeError(f"{self.op}: '{name}' has the dtype {found}; it must be {' or '.join(wanted)}")
        return found

    def _refuse(self, name, shape, pattern):
        known = [f"{word} = {self.bound[word]}" for word in pattern.split() if word in self.bound]
        suffix = f" with {', '.join(known)}" if known else ""
        raise ValueError(
            f"{self.op}: '{name}' has the shape {list(shape)}; it must be [{', '.join(pattern.split())}]{suffix}"
        )


def require(holds, sentence):
    if not holds:
        raise ValueError(sentence)


def rms_norm(x, weight):
    s, dtype = Shapes("rms_norm"), dtype_name(x.dtype)
    s.match("x", x, "... hidden")
    s.match("weight", weight, "hidden", dtype)
    return Call("rms_norm", {"tokens": s["tokens"], "hidden": s["hidden"]}, dtype, {"y": (x.shape, None)})


def add_rms_norm(x, residual, weight):
    s, dtype = Shapes("add_rms_norm"), dtype_name(x.dtype)
    s.match("x", x, "... hidden")
    s.match("residual", residual, "... hidden", dtype)
    s.match("weight", weight, "hidden", dtype)
    outputs = {"y": (x.shape, None), "residual_out": (x.shape, None)}
    return Call("add_rms_norm", {"tokens": s["tokens"], "hidden": s["hidden"]}, dtype, outputs)


def swiglu(gate_up):
    s = Shapes("swiglu")
    s.match("gate_up", gate_up, "... both")
    require(s["both"] % 2 == 0, f"swiglu: rows of 'gate_up' are gate, then up: {s['both']} elements must be even")
    half = s["both"] // 2
    shape = (*gate_up.shape[:-1], half)
    return Call(
        "swiglu", {"tokens": s["tokens"], "intermediate": half}, dtype_name(gate_up.dtype), {"y": (shape, None)}
    )


def linear(x, weight, bias, norm_weight, residual, swiglu):
    s, dtype = Shapes("linear"), dtype_name(x.dtype)
    require(
        dtype_name(weight.dtype) not in ("int8", "uint8", "int32", "fp8"),
        f"linear: 'weight' is {dtype_name(weight.dtype)}; quantized weights are packed by warptune.pack_weights",
    )
    s.match("x", x, "... in")
    s.match("weight", weight, "rows in", dtype)
    return _linear(s, x, {}, bias, norm_weight, residual, swiglu)


# Up to these tokens activations stay as they are (harness/llama/weight_format.h).
FEW_TOKENS = 64


def linear_packed(
    x,
    weight,
    scales,
    zeros,
    order,
    row_scales,
    bias,
    norm_weight,
    residual,
    weights,
    activations,
    group,
    rows,
    columns,
    swiglu,
):
    s, shape = Shapes("linear"), QuantizedShape(weights, group, rows, columns)
    s.bound |= {"rows": rows, "in": columns}
    s.match("x", x, "... in")
    s.match("weight", weight, f"{shape.packed_bytes}", "int8")
    s.match("scales", scales, f"{shape.scale_count}", {1: "int8", 2: "fp16", 4: "fp32"}[shape.scale_bytes])
    stored = {"weights": weights}
    if group:
        stored["group"] = group
    if zeros is not None:
        s.match("zeros", zeros, f"{shape.scale_count}", "int8")
        stored["zeros"] = "yes"
    if order is not None:
        s.match("order", order, "in", "int32")
        stored["act_order"] = "yes"
    if row_scales is not None:
        s.match("row_scales", row_scales, "rows", "fp32")
    if activations != "same" and s["tokens"] > FEW_TOKENS:
        require(
            norm_weight is None, f"linear: x in {activations} takes no 'norm_weight' from {FEW_TOKENS + 1} tokens on"
        )
        stored["activations"] = activations
    return _linear(s, x, stored, bias, norm_weight, residual, swiglu)


def _linear(s, x, stored, bias, norm_weight, residual, swiglu):
    """The call of a GEMM whose x and weights are matched; `stored`: the dims of quantized weights."""
    dtype = dtype_name(x.dtype)
    require(not (swiglu and (bias is not None or residual is not None)), "linear: swiglu takes no bias and no residual")
    require(not swiglu or s["rows"] % 2 == 0, "linear: with swiglu the rows of 'weight' are those of gate, then of up")
    s.bound["out"] = s["rows"] // 2 if swiglu else s["rows"]
    dims = {"tokens": s["tokens"], "in": s["in"], "out": s["out"], "bias": "no" if bias is None else "yes"}
    if bias is not None:
        s.match("bias", bias, "out", dtype)
    if norm_weight is not None:
        s.match("norm_weight", norm_weight, "in", dtype)
        dims["prologue"] = "rms_norm"
    if residual is not None:
        s.match("residual", residual, "... out", dtype)
        dims["epilogue"] = "add"
    elif swiglu:
        dims["epilogue"] = "swiglu"
    return Call("linear", dims | stored, dtype, {"y": ((*x.shape[:-1], s["out"]), None)})


def _cache(s, k_cache, v_cache, block_table, k_scale, v_scale, dtype):
    """Matches the tensors of a KV cache; returns the dims that say how it lies, and its keys per sequence.

    K is [.., rows, head_dim], or [.., head_dim / x, rows, x] where it has an axis more than V.
    """
    dims = {}
    parts = "batch" if block_table is None else "pages"
    stored = dtype_name(k_cache.dtype)
    s.match("v_cache", v_cache, f"{parts} kv_heads rows head_dim", stored)
    if len(k_cache.shape) == 5:
        s.match("k_cache", k_cache, f"{parts} kv_heads vectors rows x")
        require(
            s["vectors"] * s["x"] == s["head_dim"],
            f"{s.op}: 'k_cache' has {s['vectors']} x {s['x']} elements per head; head_dim is {s['head_dim']}",
        )
        dims["k_layout"] = "dsx"
    else:
        s.match("k_cache", k_cache, f"{parts} kv_heads rows head_dim")
    if stored in ("uint8", "float8_e4m3fn"):  # libraries without fp8 hold its codes as bytes
        stored = "fp8"
    quantized = stored != dtype
    if quantized:
        require(stored in ("int8", "fp8"), f"{s.op}: the cache has the dtype {stored}; it must be {dtype}, int8 or fp8")
        require(
            k_scale is not None and v_scale is not None, f"{s.op}: a cache of {stored} needs 'k_scale' and 'v_scale'"
        )
        dims["kv_dtype"] = stored
        by_head = len(k_scale.shape) == 1
        for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
            s.match(name, scale, "kv_heads" if by_head else f"{parts} kv_heads rows", "fp32")
        if s.op == "attention_decode" and not by_head:
            dims["kv_scale"] = "token"
        require(s.op != "rope_append" or not by_head, "rope_append: 'k_scale' and 'v_scale' have a scale per row")
    else:
        require(k_scale is None and v_scale is None, f"{s.op}: scales are those of an int8 or fp8 cache")
    if block_table is None:
        return dims, s["rows"]
    s.match("block_table", block_table, "batch entries", "int32")
    dims["page_size"] = s["rows"]
    return dims, s["rows"] * s["entries"]


def attention_decode(
    q,
    k_cache,
    v_cache,
    lengths,
    block_table,
    k_scale,
    v_scale,
    alibi_slopes,
    score_bias,
    context,
    window,
    deterministic,
):
    s, dtype = Shapes("attention_decode"), dtype_name(q.dtype)
    s.match("q", q, "batch q_heads head_dim")
    cache, capacity = _cache(s, k_cache, v_cache, block_table, k_scale, v_scale, dtype)
    s.match("lengths", lengths, "batch", "int32")
    context = context or capacity
    require(context <= capacity, f"attention_decode: context is {context}; the cache has room for {capacity} keys")
    dims = _attention_dims(s, batch=s["batch"], context=context) | cache
    if window:
        dims["window"] = window
    dims |= _scores(s, alibi_slopes, score_bias, dtype, "batch q_heads capacity", capacity)
    if deterministic:
        dims["deterministic"] = "yes"
    return Call("attention_decode", dims, dtype, {"out": (q.shape, None)}, {"capacity": capacity})


def attention_decode_append(
    qkv, k_cache, v_cache, lengths, inv_freq, bias, block_table, k_scale, v_scale, context, window, style
):
    s, dtype = Shapes("attention_decode"), dtype_name(qkv.dtype)
    s.match("qkv", qkv, "batch heads head_dim")
    cache, capacity = _cache(s, k_cache, v_cache, block_table, k_scale, v_scale, dtype)
    s.bound["q_heads"] = _query_heads(s)
    s.match("lengths", lengths, "batch", "int32")
    _rotation(s, inv_freq, bias, dtype)
    context = context or capacity
    require(context <= capacity, f"attention_decode: context is {context}; the cache has room for {capacity} keys")
    dims = _attention_dims(s, batch=s["batch"], context=context) | cache | {"append": "yes"}
    if bias is not None:
        dims["bias"] = "yes"
    if window:
        dims["window"] = window
    if style != "half_split":
        dims["style"] = style
    shape = (s["batch"], s["q_heads"], s["head_dim"])
    return Call("attention_decode", dims, dtype, {"out": (shape, None)}, {"capacity": capacity})


def attention_prefill(
    q, k, v, cu_seqlens, kv_lens, seqstart_k, block_table, alibi_slopes, q_len, kv_len, causal, window
):
    s, dtype = Shapes("attention_prefill"), dtype_name(q.dtype)
    s.match("q", q, "tokens q_heads head_dim")
    s.match("kv_lens", kv_lens, "batch", "int32")
    s.match("cu_seqlens", cu_seqlens, str(s["batch"] + 1), "int32")
    constants, dims = {"tokens": s["tokens"]}, {}
    if seqstart_k is not None:
        s.match("k", k, "keys kv_heads head_dim", dtype)
        s.match("v", v, "keys kv_heads head_dim", dtype)
        s.match("seqstart_k", seqstart_k, "batch", "int32")
        dims["kv_layout"] = "packed"
        constants["capacity"] = s["keys"]
    else:
        s.match("v", v, "_ _ _ _", dtype)  # queries of a prompt attend to keys that are not quantized
        cache, constants["capacity"] = _cache(s, k, v, block_table, None, None, dtype)
        dims |= cache
        if block_table is not None:
            constants["max_pages"] = s["entries"]
        require(
            kv_len <= constants["capacity"],
            f"attention_prefill: kv_len is {kv_len}; the cache has room for {constants['capacity']} keys",
        )
    dims = (
        _attention_dims(s, batch=s["batch"], q_len=q_len, kv_len=kv_len) | {"causal": "yes" if causal else "no"} | dims
    )
    if window:
        dims["window"] = window
    dims |= _scores(s, alibi_slopes, None, dtype, "", 0)
    return Call("attention_prefill", dims, dtype, {"out": (q.shape, None)}, constants)


def rope_append(qkv, k_cache, v_cache, sequence, position, inv_freq, bias, block_table, k_scale, v_scale, style):
    s, dtype = Shapes("rope_append"), dtype_name(qkv.dtype)
    s.match("qkv", qkv, "tokens heads head_dim")
    cache, capacity = _cache(s, k_cache, v_cache, block_table, k_scale, v_scale, dtype)
    s.bound["q_heads"] = _query_heads(s)
    s.match("sequence", sequence, "tokens", "int32")
    s.match("position", position, "tokens", "int32")
    _rotation(s, inv_freq, bias, dtype)
    dims = {"tokens": s["tokens"], "q_heads": s["q_heads"], "kv_heads": s["kv_heads"], "head_dim": s["head_dim"]}
    dims |= {"batch": s["batch"], "style": style, "scaling": "none", "bias": "no" if bias is None else "yes"} | cache
    if capacity > NEAR_POSITIONS:
        dims["start"] = NEAR_POSITIONS
    shape = (s["tokens"], s["q_heads"], s["head_dim"])
    constants = {"capacity": capacity, "max_position": capacity, "lengths": 0}  # only dynamic_ntk reads the last two
    return Call("rope_append", dims, dtype, {"q": (shape, None)}, constants)


def top_k(logits, rng, k, drop_unlikely):
    s, dtype = Shapes("top_k"), dtype_name(logits.dtype)
    s.match("logits", logits, "batch vocab")
    s.match("rng", rng, "2")
    require(
        dtype_name(rng.dtype) in ("int64", "uint64"),
        f"top_k: 'rng' has the dtype {dtype_name(rng.dtype)}; it must be int64 or uint64: seed and step",
    )
    dims = {"batch": s["batch"], "vocab": s["vocab"], "k": k} | ({"min_p": "yes"} if drop_unlikely else {})
    return Call("top_k", dims, dtype, {"ids": ((s["batch"],), "int32")})


def _query_heads(s):
    heads = s["heads"] - 2 * s["kv_heads"]
    require(
        heads > 0,
        f"{s.op}: 'qkv' has {s['heads']} heads; it must have those of q, and {s['kv_heads']} each of k and v",
    )
    return heads


def _rotation(s, inv_freq, bias, dtype):
    s.match("inv_freq", inv_freq, str(s["head_dim"] // 2), "fp32")
    if bias is not None:
        s.match("bias", bias, "heads head_dim", dtype)


def _attention_dims(s, **work):
    require(
        s["q_heads"] % s["kv_heads"] == 0,
        f"{s.op}: {s['q_heads']} query heads are no multiple of {s['kv_heads']} key and value heads",
    )
    return work | {"q_heads": s["q_heads"], "kv_heads": s["kv_heads"], "head_dim": s["head_dim"]}


def _scores(s, alibi_slopes, score_bias, dtype, bias_shape, capacity):
    require(alibi_slopes is None or score_bias is None, f"{s.op}: takes 'alibi_slopes' or 'score_bias', not both")
    if alibi_slopes is not None:
        s.match("alibi_slopes", alibi_slopes, "q_heads", "fp32")
        return {"score_bias": "alibi"}
    if score_bias is not None:
        s.bound["capacity"] = capacity
        s.match("score_bias", score_bias, bias_shape, dtype)
        return {"score_bias": "additive"}
    return {}
