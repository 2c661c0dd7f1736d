"""A decode step of LLaMA with a static KV cache, as PyTorch runs it best: fused projections, torch.compile,
one CUDA graph. Random weights; the whole cache is visible, so that attention needs no mask."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from cases import DEVICE, DTYPE, SIZE, rotate


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    intermediate: int
    q_heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    theta: float

    def weight_count(self) -> int:
        """The weights that a decode step reads: all but the embedding table, of which it reads one row. A table that
        is also the head is read as the head."""
        heads = (self.q_heads + 2 * self.kv_heads) * self.head_dim
        per_layer = self.hidden * (heads + self.q_heads * self.head_dim + 3 * self.intermediate + 2)
        return self.layers * per_layer + self.hidden + self.vocab * self.hidden


MODELS = {m.name: m for m in (
    Model("llama2-7b", 32, 4096, 11008, 32, 32, 128, 32000, 1e4),
    Model("llama3-8b", 32, 4096, 14336, 32, 8, 128, 128256, 5e5),
    Model("llama3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, 5e5),
    Model("tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000, 1e4))}
RUNS = (("llama2-7b", 1, 512), ("llama2-7b", 32, 1024), ("llama3-8b", 1, 2048), ("llama3.2-1b", 1, 512),
        ("tinyllama-1.1b", 1, 1024))  # model, batch, context


def random_weight(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=DTYPE, device=DEVICE).normal_(0, 0.02)


class Layer(torch.nn.Module):
    def __init__(self, m: Model, batch: int, context: int):
        super().__init__()
        self.m = m
        rows = (m.q_heads + 2 * m.kv_heads) * m.head_dim
        weights = {
            "attention_norm": torch.ones(m.hidden, dtype=DTYPE, device=DEVICE),
            "mlp_norm": torch.ones(m.hidden, dtype=DTYPE, device=DEVICE),
            "qkv": random_weight(rows, m.hidden), "o": random_weight(m.hidden, m.q_heads * m.head_dim),
            "gate_up": random_weight(2 * m.intermediate, m.hidden), "down": random_weight(m.hidden, m.intermediate),
            "k_cache": random_weight(batch, m.kv_heads, context, m.head_dim),
            "v_cache": random_weight(batch, m.kv_heads, context, m.head_dim),
        }
        for name, tensor in weights.items():
            self.register_buffer(name, tensor)

    def forward(self, x, position, cos, sin):
        m, batch = self.m, x.shape[0]
        qkv = F.linear(F.rms_norm(x, (m.hidden,), self.attention_norm, 1e-5), self.qkv)
        q, k, v = qkv.view(batch, -1, m.head_dim).split((m.q_heads, m.kv_heads, m.kv_heads), dim=1)
        self.k_cache[:, :, position] = rotate(k, cos, sin).unsqueeze(2)
        self.v_cache[:, :, position] = v.unsqueeze(2)
        out = F.scaled_dot_product_attention(rotate(q, cos, sin).unsqueeze(2), self.k_cache, self.v_cache,
                                             enable_gqa=m.q_heads != m.kv_heads)
        x = x + F.linear(out.reshape(batch, -1), self.o)
        gate, up = F.linear(F.rms_norm(x, (m.hidden,), self.mlp_norm, 1e-5), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Llama(torch.nn.Module):
    def __init__(self, m: Model, batch: int, context: int):
        super().__init__()
        self.m = m
        self.layers = torch.nn.ModuleList(Layer(m, batch, context) for _ in range(m.layers))
        self.register_buffer("embedding", random_weight(m.vocab, m.hidden))
        self.register_buffer("norm", torch.ones(m.hidden, dtype=DTYPE, device=DEVICE))
        self.register_buffer("lm_head", random_weight(m.vocab, m.hidden))
        exponents = torch.arange(0, m.head_dim, 2, device=DEVICE).float() / m.head_dim
        self.register_buffer("inv_freq", m.theta**-exponents)

    def forward(self, ids, position):
        """ids [batch], position [1]: the position of this token in every sequence; returns the next ids."""
        angle = (position.float()[:, None] * self.inv_freq)[:, None, :]
        cos, sin = angle.cos(), angle.sin()
        x = F.embedding(ids, self.embedding)
        for layer in self.layers:
            x = layer(x, position, cos, sin)
        logits = F.linear(F.rms_norm(x, (self.m.hidden,), self.norm, 1e-5), self.lm_head)
        return torch.argmax(logits, dim=-1)


def step_bytes(m: Model, batch: int, context: int) -> int:
    return SIZE * (m.weight_count() + 2 * m.layers * batch * m.kv_heads * m.head_dim * context)


def decode_step(model: str, batch: int, context: int):
    """The compiled step and its arguments; the step is at the last position of the cache."""
    module = Llama(MODELS[model], batch, context)
    step = torch.compile(module, mode="max-autotune-no-cudagraphs", dynamic=False, fullgraph=True)
    arguments = {
        "ids": torch.ones(batch, dtype=torch.int64, device=DEVICE),
        "position": torch.full((1,), context - 1, dtype=torch.int64, device=DEVICE),
    }
    return step, arguments
