"""Functions that launch the plans of an exported folder."""

from . import specs
from ._native import Folder, Launcher
from .arrays import as_array, dtype_name
from .packed_weights import PackedWeights


class Ops:
    """The ops of an exported folder, on arrays in the memory of a GPU.

    A function takes torch tensors, or arrays that speak DLPack or `__cuda_array_interface__`; all must be contiguous
    and on one device. torch tensors are launched on torch's current stream, and outputs are allocated. Other arrays are
    launched on `stream` (an integer, 0: the default stream) and need their outputs: `out=array`, or a tuple of arrays
    where there are several. Which plan serves a call follows from the shapes; it is prepared at the first call. There
    is no backward pass.
    """

    def __init__(self, path, pdl=False):
        self._folder = Folder(str(path))
        self._pdl = pdl
        self._prepared = {}

    @property
    def arch(self):
        """What the machine code is for: `sm_90a`."""
        return self._folder.arch

    @property
    def plans(self):
        """The table of plans: a dict each, with op, dtype, variant, dims, ranges and what it covers."""
        return self._folder.plans()

    def find(self, problem):
        """The plan of a problem such as `rms_norm[tokens=1,hidden=4096,dtype=bf16]`; Error names the nearest."""
        return self._folder.find(problem)

    def problem(self, op, *inputs, **options):
        """The problem of a call of `op`, from shapes and dtypes alone: the arrays may lie anywhere (NumPy)."""
        known = [name for name in vars(Ops) if not name.startswith("_") and name in {spec.name for spec in specs.ALL}]
        if op not in known:
            raise ValueError(f"'{op}' has no function here; those are {', '.join(known)}")
        recorder = _Recorder()
        getattr(Ops, op)(recorder, *inputs, **options)
        return recorder.problem

    def launch(self, problem, members, stream=0, pdl=None):
        """Launches any plan: `members` has the pointers (as integers) and numbers of its args struct by name."""
        names = tuple(members)
        key = (problem, names, pdl)
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = Launcher(self._folder, problem, names, {}, self._pdl if pdl is None else pdl)
            self._prepared[key] = prepared
        prepared(stream, *members.values())

    def rms_norm(self, x, weight, eps=1e-5, *, out=None, stream=None):
        """y = x * weight / sqrt(mean(x^2) + eps) over the last axis."""
        return self._run(specs.RMS_NORM, (x, weight), (), (eps,), out, stream)

    def add_rms_norm(self, x, residual, weight, eps=1e-5, *, out=None, stream=None):
        """(y, residual_out): residual_out = x + residual, y = rms_norm(residual_out)."""
        return self._run(specs.ADD_RMS_NORM, (x, residual, weight), (), (eps,), out, stream)

    def swiglu(self, gate_up, *, out=None, stream=None):
        """y = silu(gate) * up; a row of `gate_up` is gate, then up."""
        return self._run(specs.SWIGLU, (gate_up,), (), (), out, stream)

    def linear(
        self, x, weight, bias=None, *, norm_weight=None, eps=1e-5, residual=None, swiglu=False, out=None, stream=None
    ):
        """y = x @ weight.T + bias. `norm_weight`: of rms_norm(x); `residual` is added; `swiglu`: of the halves of y.

        `weight` may be quantized: what `warptune.pack_weights` returns, on the GPU.
        """
        spec, with_norm, weights, options = specs.LINEAR, specs.LINEAR_NORM, (weight,), (swiglu,)
        if isinstance(weight, PackedWeights):
            spec, with_norm = specs.LINEAR_PACKED, specs.LINEAR_PACKED_NORM
            weights = (weight.weight, weight.scales, weight.zeros, weight.order, weight.row_scales)
            options = (weight.weights, weight.activations, weight.group, weight.rows, weight.columns, swiglu)
        inputs = (x, *weights, bias, norm_weight, residual)
        if norm_weight is None:
            return self._run(spec, inputs, options, (), out, stream)
        return self._run(with_norm, inputs, options, (eps,), out, stream)

    def attention_decode(
        self,
        q,
        k_cache,
        v_cache,
        lengths,
        *,
        scale=None,
        context=0,
        window=0,
        block_table=None,
        k_scale=None,
        v_scale=None,
        alibi_slopes=None,
        score_bias=None,
        deterministic=False,
        out=None,
        stream=None,
    ):
        """Attention of one query token per sequence, q [batch, q_heads, head_dim], to the first `lengths` keys.

        k_cache and v_cache are [batch, kv_heads, capacity, head_dim], or with `block_table` [pages, kv_heads,
        page_size, head_dim]; int8 and fp8 need `k_scale` and `v_scale`. `context` bounds `lengths`, and with it selects
        the plan; 0: the capacity of the cache. `scale`: of the scores; None: 1 / sqrt(head_dim).
        """
        inputs = (q, k_cache, v_cache, lengths, block_table, k_scale, v_scale, alibi_slopes, score_bias)
        options = (context, window, deterministic)
        return self._run(specs.ATTENTION_DECODE, inputs, options, (_scale(scale),), out, stream)

    def attention_decode_append(
        self,
        qkv,
        k_cache,
        v_cache,
        lengths,
        inv_freq,
        *,
        bias=None,
        scale=None,
        context=0,
        window=0,
        block_table=None,
        k_scale=None,
        v_scale=None,
        style="half_split",
        out=None,
        stream=None,
    ):
        """rope_append and attention_decode in one: rotates q and k of qkv [batch, q_heads + 2 kv_heads, head_dim] at
        position lengths - 1, and writes k and v there."""
        inputs = (qkv, k_cache, v_cache, lengths, inv_freq, bias, block_table, k_scale, v_scale)
        options = (context, window, style)
        return self._run(specs.ATTENTION_DECODE_APPEND, inputs, options, (_scale(scale),), out, stream)

    def attention_prefill(
        self,
        q,
        k,
        v,
        cu_seqlens,
        kv_lens,
        *,
        q_len,
        kv_len,
        causal=True,
        scale=None,
        window=0,
        seqstart_k=None,
        block_table=None,
        alibi_slopes=None,
        out=None,
        stream=None,
    ):
        """Attention of packed queries, q [tokens, q_heads, head_dim]: sequence b has the rows cu_seqlens[b] to
        cu_seqlens[b + 1], and kv_lens[b] keys.

        k and v are a cache as in attention_decode, or with `seqstart_k` packed rows [keys, kv_heads, head_dim].
        `q_len` and `kv_len` are those of the longest sequences. A causal mask is aligned to the last query and key.
        """
        inputs = (q, k, v, cu_seqlens, kv_lens, seqstart_k, block_table, alibi_slopes)
        options = (q_len, kv_len, causal, window)
        return self._run(specs.ATTENTION_PREFILL, inputs, options, (_scale(scale),), out, stream)

    def rope_append(
        self,
        qkv,
        k_cache,
        v_cache,
        sequence,
        position,
        inv_freq,
        *,
        bias=None,
        block_table=None,
        k_scale=None,
        v_scale=None,
        style="half_split",
        out=None,
        stream=None,
    ):
        """Splits qkv [tokens, q_heads + 2 kv_heads, head_dim], rotates q and k at `position`, appends k and v to the
        caches of `sequence`, and returns q [tokens, q_heads, head_dim]."""
        inputs = (qkv, k_cache, v_cache, sequence, position, inv_freq, bias, block_table, k_scale, v_scale)
        return self._run(specs.ROPE_APPEND, inputs, (style,), (), out, stream)

    def top_k(self, logits, rng, k, *, temperature=1.0, p=1.0, min_p=0.0, out=None, stream=None):
        """Samples an id per row of logits [batch, vocab] from the k largest, and of those from the smallest set of
        probability p; `rng` holds seed and step, two 64-bit integers on the GPU."""
        if min_p > 0:
            return self._run(specs.TOP_K_MIN_P, (logits, rng), (k, True), (temperature, p, min_p), out, stream)
        return self._run(specs.TOP_K, (logits, rng), (k, False), (temperature, p), out, stream)

    def _run(self, spec, inputs, options, numbers, out, stream):
        arrays = [None if value is None else as_array(value, name) for value, name in zip(inputs, spec.input_names)]
        if out is None:
            raise ValueError(f"{spec.name}: arrays that are not torch's need their outputs: out=..")
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(spec.outputs):
            raise ValueError(f"{spec.name}: out must be {' and '.join(spec.outputs)}, in this order")
        outputs = [as_array(value, name) for value, name in zip(outputs, spec.outputs)]
        call = self._call(spec, arrays, options)
        call.check_outputs(outputs)
        call(stream or 0, arrays, outputs, complete(numbers, arrays[0]))
        return out

    def _call(self, spec, arrays, options):
        """The prepared call of these inputs; a known one is found by shapes, without further checks."""
        key = (
            spec.name,
            options,
            *[a if a is None else (a.shape, a.dtype, a.device, a.is_contiguous()) for a in arrays],
        )
        call = self._prepared.get(key)
        if call is None:
            call = self._prepared[key] = PreparedCall(self._folder, spec, arrays, options, self._pdl)
        return call


class PreparedCall:
    """A plan whose args lack only pointers and `numbers`: one per combination of shapes, dtypes and options."""

    def __init__(self, folder, spec, arrays, options, pdl):
        call = spec.shapes(*arrays, *options)
        names = [name for name, array in zip(spec.input_names, arrays) if array is not None]
        present = [array for array in arrays if array is not None]
        folder.find(call.problem)
        self.device = _common_device(spec.name, names, present)
        self.op = spec.name
        self._fitting = set()  # outputs that were checked, by shape, dtype and place
        self.outputs = [(name, tuple(shape), dtype or call.dtype) for name, (shape, dtype) in call.outputs.items()]
        members = [spec.member(name) for name in names] + list(call.outputs) + list(spec.numbers)
        self.launcher = Launcher(folder, call.problem, members, call.constants, pdl)

    def __call__(self, stream, arrays, outputs, numbers):
        pointers = [array.data_ptr() for array in arrays if array is not None]
        self.launcher(stream, *pointers, *[output.data_ptr() for output in outputs], *numbers)

    def check_outputs(self, outputs):
        key = tuple((o.shape, o.dtype, o.device, o.is_contiguous()) for o in outputs)
        if key in self._fitting:
            return
        for (name, shape, dtype), output in zip(self.outputs, outputs, strict=True):
            found = dtype_name(output.dtype)
            if tuple(output.shape) != shape or found != dtype:
                raise ValueError(
                    f"{self.op}: '{name}' is {list(output.shape)} {found}; it must be {list(shape)} {dtype}"
                )
            if not output.is_contiguous():
                raise ValueError(f"{self.op}: '{name}' is not contiguous")
            if not same_device(str(output.device), self.device):
                raise ValueError(f"{self.op}: '{name}' is on {output.device}, the inputs are on {self.device}")
        self._fitting.add(key)


class _Recorder:
    """Stands in for Ops where only the problem of a call is asked for."""

    def _run(self, spec, inputs, options, numbers, out, stream):
        shaped = [
            value if value is None or hasattr(value, "shape") else as_array(value, name)
            for value, name in zip(inputs, spec.input_names)
        ]
        self.problem = spec.shapes(*shaped, *options).problem


def _common_device(op, names, arrays):
    first = str(arrays[0].device)
    for name, array in zip(names, arrays):
        device = str(array.device)
        if not device.startswith("cuda"):
            raise ValueError(f"{op}: '{name}' is in the memory of the {device}; the kernels run on a GPU")
        if not same_device(device, first):
            raise ValueError(f"{op}: '{name}' is on {device}, '{names[0]}' is on {first}")
        if not array.is_contiguous():
            raise ValueError(f"{op}: '{name}' is not contiguous; .contiguous() makes a copy that is")
    return first


def same_device(one, other):
    """__cuda_array_interface__ does not say which GPU: "cuda" is any."""
    return one == other or (one.startswith("cuda") and other.startswith("cuda") and "cuda" in (one, other))


def _scale(scale):
    return None if scale is None else float(scale)


def complete(numbers, first):
    """The numbers of a call. None is the scale of attention: 1 / sqrt(head_dim), the last dim of the first input."""
    return tuple([first.shape[-1] ** -0.5 if number is None else number for number in numbers])
