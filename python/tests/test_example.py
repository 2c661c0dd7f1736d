"""examples/python/llama_torch.py on the CPU: with ops that torch computes, the replaced model gives the same logits."""

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "python" / "llama_torch.py"


class TorchOps:
    """What the example calls, in torch."""

    def rms_norm(self, x, weight, eps):
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)

    def add_rms_norm(self, x, residual, weight, eps):
        return self.rms_norm(x + residual, weight, eps), x + residual

    def linear(self, x, weight):
        return x @ weight.T

    def swiglu(self, gate_up):
        gate, up = gate_up.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    def rope_append(self, qkv, k_cache, v_cache, sequence, position, inv_freq):
        kv = k_cache.shape[1]
        q, k, v = qkv.split([qkv.shape[1] - 2 * kv, kv, kv], 1)
        angles = (position[:, None] * inv_freq).repeat(1, 2)[:, None]

        def rotated(x):
            first, second = x.chunk(2, -1)
            return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()

        k_cache[sequence.long(), :, position.long()] = rotated(k)
        v_cache[sequence.long(), :, position.long()] = v
        return rotated(q)

    def attention_decode(self, q, k_cache, v_cache, lengths):
        keys = slice(0, int(lengths[0]))
        return self._attend(q[:, :, None], k_cache[:, :, keys], v_cache[:, :, keys])[:, :, 0]

    def attention_prefill(self, q, k, v, cu_seqlens, kv_lens, q_len, kv_len):
        assert cu_seqlens.tolist() == [0, q_len]
        assert kv_lens.tolist() == [kv_len]
        out = self._attend(q.transpose(0, 1)[None], k[:, :, :kv_len], v[:, :, :kv_len], is_causal=True)
        return out[0].transpose(0, 1).contiguous()

    def _attend(self, q, k, v, **options):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


def test_the_replaced_model_has_the_logits_of_transformers():
    spec = importlib.util.spec_from_file_location("llama_torch", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with torch.inference_mode():
        model = example.tiny_llama(torch, "cpu", layers=2).float()
        state = example.State(torch, "cpu")
        prompt = torch.randint(32000, (1, example.PROMPT))
        expected, fed = example.plain(model, prompt, 3)
        example.replace(model, TorchOps(), state, torch)
        logits = example.replaced(model, state, prompt, fed)
    assert len(logits) == len(expected) == 4
    for a, b in zip(logits, expected, strict=True):
        assert ((a - b).norm() / b.norm()).item() < 1e-4
