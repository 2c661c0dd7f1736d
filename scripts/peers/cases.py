"""The ops as PyTorch runs them, on the problems of the harness (bf16)."""
from dataclasses import dataclass, field
from typing import Callable, Iterator

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from measure import Input

DTYPE, SIZE = torch.bfloat16, 2
DEVICE = "cuda"
TOKENS = (1, 4096, 16384)


@dataclass(frozen=True)
class Case:
    op: str
    dims: dict
    variant: str
    run: Callable
    inputs: dict[str, Input] = field(repr=False)
    bytes: int = 0  # compulsory: every needed byte once
    flops: int = 0
    compile: bool = False
    rotated_bytes: int | None = None

    @property
    def problem(self) -> str:
        dims = ",".join(f"{name}={value}" for name, value in self.dims.items())
        return f"{self.op}[{dims},dtype=bf16]"

    @property
    def key(self) -> str:
        return f"{self.op}/{self.variant} {self.problem}"


def uniform(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.empty(shape, dtype=DTYPE, device=DEVICE).uniform_(-1, 1)


def weight(*shape: int) -> Input:
    return Input(uniform(*shape), cold=True)


def activation(*shape: int) -> Input:
    return Input(uniform(*shape))


def eager_and_compiled(**case) -> Iterator[Case]:
    yield Case(variant="torch_eager", **case)
    yield Case(variant="torch_compile", compile=True, **case)


def rms_norm(x, weight):
    return F.rms_norm(x, weight.shape, weight, 1e-5)


def add_rms_norm(x, residual, weight):
    total = x + residual
    return total, F.rms_norm(total, weight.shape, weight, 1e-5)


def swiglu(gate_up):
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def rotate(x, cos, sin):
    """Half-split RoPE of x [tokens, heads, head_dim]; cos and sin [tokens, 1, head_dim / 2]."""
    low, high = x.float().chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(x.dtype)


def rope_append_of(q_heads: int, kv_heads: int) -> Callable:
    def rope_append(qkv, sequence, position, inv_freq, k_cache, v_cache):
        q, k, v = qkv.split((q_heads, kv_heads, kv_heads), dim=1)
        angle = (position.float()[:, None] * inv_freq)[:, None, :]
        cos, sin = angle.cos(), angle.sin()
        k_cache[sequence, :, position] = rotate(k, cos, sin)
        v_cache[sequence, :, position] = v
        return rotate(q, cos, sin)

    return rope_append


def pointwise_cases() -> Iterator[Case]:
    hidden, intermediate, vocab, heads, head_dim = 4096, 11008, 32000, 32, 128
    for tokens in TOKENS:
        n = tokens * hidden * SIZE
        yield from eager_and_compiled(
            op="rms_norm", dims={"tokens": tokens, "hidden": hidden}, run=rms_norm,
            inputs={"x": activation(tokens, hidden), "weight": weight(hidden)}, bytes=2 * n + hidden * SIZE,
            flops=4 * tokens * hidden)
        yield from eager_and_compiled(
            op="add_rms_norm", dims={"tokens": tokens, "hidden": hidden}, run=add_rms_norm,
            inputs={"x": activation(tokens, hidden), "residual": activation(tokens, hidden),
                    "weight": weight(hidden)}, bytes=4 * n + hidden * SIZE, flops=5 * tokens * hidden)
        yield from eager_and_compiled(
            op="swiglu", dims={"tokens": tokens, "intermediate": intermediate}, run=swiglu,
            inputs={"gate_up": activation(tokens, 2 * intermediate)}, bytes=3 * tokens * intermediate * SIZE,
            flops=5 * tokens * intermediate)
        ids = Input(lambda t=tokens: torch.randint(0, vocab, (t,), dtype=torch.int32, device=DEVICE), cold=True)
        yield Case(
            op="embedding", dims={"tokens": tokens, "vocab": vocab, "hidden": hidden}, variant="torch_eager",
            run=lambda ids, table: F.embedding(ids, table),
            inputs={"ids": ids, "table": Input(uniform(vocab, hidden))}, bytes=2 * n + 4 * tokens,
            rotated_bytes=2 * n)
        yield from rope_cases(tokens, heads, heads, head_dim)


def rope_cases(tokens: int, q_heads: int, kv_heads: int, head_dim: int) -> Iterator[Case]:
    """Appends at the end of one sequence: one token of a decode step, or a prompt from its start."""
    capacity = max(tokens, 512)
    first = capacity - tokens
    rows = (q_heads + 2 * kv_heads) * head_dim

    cache = Input(uniform(1, kv_heads, capacity, head_dim), cold=True)
    yield from eager_and_compiled(
        op="rope_append",
        dims={"tokens": tokens, "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim, "batch": 1,
              "style": "half_split", "scaling": "none", "bias": "no", "k_layout": "sd"},
        run=rope_append_of(q_heads, kv_heads),
        inputs={
            "qkv": activation(tokens, q_heads + 2 * kv_heads, head_dim),
            "sequence": Input(lambda: torch.zeros(tokens, dtype=torch.int64, device=DEVICE)),
            "position": Input(lambda: torch.arange(first, first + tokens, device=DEVICE)),
            "inv_freq": Input(lambda: 10000.0 ** (-torch.arange(0, head_dim, 2, device=DEVICE).float() / head_dim)),
            "k_cache": cache, "v_cache": cache,
        }, bytes=2 * tokens * rows * SIZE + 8 * tokens, flops=6 * tokens * (q_heads + kv_heads) * head_dim // 2)


LINEAR_MODELS = (  # hidden, out of qkv, intermediate, vocabulary
    (2048, 3072, 8192, 128256),    # LLaMA-3.2 1B
    (4096, 12288, 11008, 32000),   # LLaMA-2 7B
    (4096, 6144, 14336, 128256),   # LLaMA-3 8B
    (5120, 15360, 13824, 32000),   # LLaMA-2 13B
    (8192, 10240, 28672, 128256))  # LLaMA-3 70B
LINEAR_TOKENS = (1, 2, 4, 8, 16, 32, 64)


def linear_shapes() -> list[tuple[int, int]]:
    """(in, out) of qkv, o, gate_up, down and lm_head of each model, each once."""
    shapes = [shape for hidden, qkv, intermediate, vocab in LINEAR_MODELS
              for shape in ((hidden, qkv), (hidden, hidden), (hidden, 2 * intermediate), (intermediate, hidden),
                            (hidden, vocab))]
    return list(dict.fromkeys(shapes))


def linear_cases() -> Iterator[Case]:
    """cuBLASLt as F.linear calls it."""
    for k, n in linear_shapes():
        for tokens in LINEAR_TOKENS:
            yield Case(
                op="linear", dims={"tokens": tokens, "in": k, "out": n, "bias": "no"}, variant="torch_cublas",
                run=lambda x, weight: F.linear(x, weight),
                inputs={"x": activation(tokens, k), "weight": weight(n, k)},
                bytes=SIZE * (tokens * k + n * k + tokens * n), flops=2 * tokens * k * n)


BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "mem_efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
MAX_SCORE_BYTES = 1 << 32  # of math, which keeps the scores of all heads in memory as fp32, several times


def backends_of(batch: int, q_heads: int, kv_heads: int, q_len: int, kv_len: int) -> list[str]:
    """The backends that support the problem: mem_efficient does not support grouped query heads."""
    backends = ["flash", "cudnn"]
    if q_heads == kv_heads:
        backends.append("mem_efficient")
    if 4 * batch * q_heads * q_len * kv_len <= MAX_SCORE_BYTES:
        backends.append("math")
    return backends


def attention_of(backend: str, causal: bool) -> Callable:
    def attention(q, k, v):
        with sdpa_kernel(BACKENDS[backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return attention


DECODE_HEAD_DIM = 128
DECODE_SHAPES = (  # batch, q_heads, kv_heads, context
    (1, 32, 32, 256), (1, 32, 32, 1024), (1, 32, 32, 4096), (1, 32, 32, 16384), (8, 32, 32, 1024),
    (32, 32, 32, 2048), (64, 32, 32, 256), (1, 32, 8, 2048), (1, 32, 8, 4096), (1, 32, 8, 32768),
    (16, 32, 8, 4096), (64, 32, 8, 4096), (1, 64, 8, 131072))


def decode_case(batch: int, q_heads: int, kv_heads: int, context: int, **case) -> Case:
    """The fields of a case of attention_decode; `case` has the others."""
    head_dim = DECODE_HEAD_DIM
    return Case(
        op="attention_decode",
        dims={"batch": batch, "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim, "context": context,
              "uneven": "no", "k_layout": "sd", "append": "no", "bias": "no"},
        bytes=2 * batch * head_dim * (kv_heads * context + q_heads) * SIZE,
        flops=4 * batch * q_heads * context * head_dim, **case)


def attention_decode_cases() -> Iterator[Case]:
    head_dim = DECODE_HEAD_DIM
    for batch, q_heads, kv_heads, context in DECODE_SHAPES:
        cache = weight(batch, kv_heads, context, head_dim)
        for backend in backends_of(batch, q_heads, kv_heads, 1, context):
            yield decode_case(batch, q_heads, kv_heads, context, variant=f"torch_sdpa_{backend}",
                              run=attention_of(backend, causal=False),
                              inputs={"q": activation(batch, q_heads, 1, head_dim), "k": cache, "v": cache})


PREFILL_SHAPES = (  # batch, q_heads, kv_heads, length, head_dim, causal
    (1, 32, 32, 512, 128, 1), (1, 32, 32, 1024, 128, 1), (1, 32, 32, 2048, 128, 1), (1, 32, 32, 4096, 128, 1),
    (1, 32, 32, 8192, 128, 1), (1, 32, 32, 8192, 128, 0), (1, 32, 8, 512, 128, 1), (1, 32, 8, 2048, 128, 1),
    (4, 32, 8, 4096, 128, 1), (8, 32, 32, 2048, 64, 1), (16, 32, 32, 1024, 128, 0))


def prefill_case(batch: int, q_heads: int, kv_heads: int, length: int, head_dim: int, causal: int, **case) -> Case:
    """The fields of a case of attention_prefill; `case` has the others."""
    return Case(
        op="attention_prefill",
        dims={"batch": batch, "q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head_dim, "q_len": length,
              "kv_len": length, "causal": causal, "uneven": "no"},
        bytes=2 * batch * length * head_dim * (q_heads + kv_heads) * SIZE,
        flops=4 * batch * q_heads * length * length * head_dim // (2 if causal else 1), **case)


def attention_prefill_cases() -> Iterator[Case]:
    for shape in PREFILL_SHAPES:
        batch, q_heads, kv_heads, length, head_dim, causal = shape
        cache = weight(batch, kv_heads, length, head_dim)
        for backend in backends_of(batch, q_heads, kv_heads, length, length):
            yield prefill_case(
                *shape, variant=f"torch_sdpa_{backend}", run=attention_of(backend, causal=bool(causal)),
                inputs={"q": Input(uniform(batch, q_heads, length, head_dim), cold=True), "k": cache, "v": cache})


def logits_cases() -> Iterator[Case]:
    for vocab in (32000, 128256):
        for batch in (1, 64):
            read = batch * vocab * SIZE
            inputs = {"logits": activation(batch, vocab)}
            yield Case(op="argmax", dims={"batch": batch, "vocab": vocab}, variant="torch_eager",
                       run=lambda logits: torch.argmax(logits, dim=-1), inputs=inputs, bytes=read + 4 * batch)
            yield Case(op="top_k", dims={"batch": batch, "vocab": vocab, "k": 50}, variant="torch_eager",
                       run=lambda logits: torch.topk(logits, 50, dim=-1), inputs=inputs, bytes=read + 4 * batch)
            yield Case(op="softmax", dims={"batch": batch, "q_heads": 1, "q_len": 1, "kv_len": vocab, "mask": "none"},
                       variant="torch_eager", run=lambda logits: torch.softmax(logits, dim=-1), inputs=inputs,
                       bytes=2 * read, flops=5 * batch * vocab)


def all_cases() -> Iterator[Case]:
    yield from pointwise_cases()
    yield from linear_cases()
    yield from attention_decode_cases()
    yield from attention_prefill_cases()
    yield from logits_cases()
