"""Runs a transformers LLaMA (the shape of TinyLlama 1.1B, random weights) with and without the winners of warptune.

Compares the logits, and prints tokens/s and the time of a call. It downloads nothing.

    warptune export --wisdom results/h200/wisdom.json --model tinyllama-1.1b --batch 1 --context 512 --prompt-len 128 \
        --arch sm_90a -o winners
    pip install torch transformers ./python
    python examples/python/llama_torch.py winners
"""

import argparse
import copy
import sys
import time
from types import MethodType

PROMPT, CAPACITY, STEPS = 128, 512, 64
TOLERANCE = 1.25  # error of the logits against fp32, in units of the error of transformers in bf16


class State:
    """What layers read from the GPU: where the tokens of this step are, so that one CUDA graph serves every step."""

    def __init__(self, torch, device):
        def ints(values):
            return torch.tensor(values, dtype=torch.int32, device=device)

        self.prompt = {"sequence": ints([0] * PROMPT), "position": ints(list(range(PROMPT)))}
        self.step = {"sequence": ints([0]), "position": ints([PROMPT - 1])}
        self.cu_seqlens, self.lengths = ints([0, PROMPT]), ints([PROMPT])


# The replacement: attention, norms, linears and activation of every layer, the last norm and the lm_head.
def replace(model, ops, state, torch):
    config, rope = model.config, model.model.rotary_emb.inv_freq
    kv, d, eps = config.num_key_value_heads, model.model.layers[0].self_attn.head_dim, config.rms_norm_eps

    def forward(layer, hidden, **_):
        rows = hidden.view(-1, config.hidden_size)
        x = ops.rms_norm(rows, layer.input_layernorm.weight, eps)
        qkv = ops.linear(x, layer.qkv).view(len(rows), -1, d)
        tokens = state.step if len(rows) == 1 else state.prompt
        q = ops.rope_append(qkv, layer.k, layer.v, tokens["sequence"], tokens["position"], rope)
        if len(rows) == 1:
            attended = ops.attention_decode(q, layer.k, layer.v, state.lengths)
        else:
            attended = ops.attention_prefill(
                q, layer.k, layer.v, state.cu_seqlens, state.lengths, q_len=PROMPT, kv_len=PROMPT
            )
        o = ops.linear(attended.view(len(rows), -1), layer.self_attn.o_proj.weight)
        y, rows = ops.add_rms_norm(o, rows, layer.post_attention_layernorm.weight, eps)
        y = ops.linear(ops.swiglu(ops.linear(y, layer.gate_up)), layer.mlp.down_proj.weight)
        return (rows + y).view(hidden.shape)

    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        layer.qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        layer.gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        # Two tensors: torch.compile corrupts a cache that is a view into a larger tensor.
        layer.k, layer.v = (layer.qkv.new_zeros(1, kv, CAPACITY, d) for _ in "kv")
        layer.forward = MethodType(forward, layer)
    model.model.norm.forward = lambda x: ops.rms_norm(x, model.model.norm.weight, eps)
    model.lm_head.forward = lambda x: ops.linear(x, model.lm_head.weight)


def run(model, ids):
    """Logits of the last token. The parts of the model in a row: none of them waits for the GPU."""
    hidden = model.model.embed_tokens(ids)
    for layer in model.model.layers:
        hidden = layer(hidden)
    return model.lm_head(model.model.norm(hidden)[:, -1:])[:, -1]


def tiny_llama(torch, device, layers=22):
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=4, max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(1)
    with torch.device(device):  # the frequencies of RoPE stay fp32, which .to(torch.bfloat16) would round
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def plain(model, prompt, steps, given=None):
    """Logits of transformers, and the tokens that were fed: those given, else the likeliest ones."""
    out = model(prompt, use_cache=True, logits_to_keep=1)
    logits, fed = [out.logits[:, -1]], []
    for i in range(steps):
        fed.append(given[i] if given else logits[-1].argmax(-1, keepdim=True))
        out = model(fed[-1], past_key_values=out.past_key_values, use_cache=True, logits_to_keep=1)
        logits.append(out.logits[:, -1])
    return logits, fed


def replaced(model, state, prompt, fed):
    """Logits of the replaced model on the same tokens."""
    state.step["position"].fill_(PROMPT - 1)
    state.lengths.fill_(PROMPT)
    logits = [run(model, prompt)]
    for token in fed:
        state.step["position"] += 1
        state.lengths += 1
        logits.append(run(model, token))
    return logits


def error(logits, exact):
    """The largest relative L2 error over the positions."""
    return max(((a.float() - b).norm() / b.norm()).item() for a, b in zip(logits, exact, strict=True))


def seconds(torch, body, repeats):
    """Per repetition: until the host has enqueued it, and until the GPU has done it."""
    body()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        body()
    enqueued = time.perf_counter()
    torch.cuda.synchronize()
    return (enqueued - begin) / repeats, (time.perf_counter() - begin) / repeats


def captured(torch, body):
    """A CUDA graph of what `body` launches."""
    body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def time_of_a_call(torch, ops, model):
    """Microseconds that the host spends on an eager call, and those of a call in a graph."""
    calls = 200
    x, weight = torch.randn(1, 2048, dtype=torch.bfloat16, device="cuda"), model.model.norm.weight
    eager = min(seconds(torch, lambda: ops.rms_norm(x, weight), calls)[0] for _ in range(5))
    graph = captured(torch, lambda: [ops.rms_norm(x, weight) for _ in range(calls)])
    return 1e6 * eager, 1e6 * seconds(torch, graph.replay, 10)[1] / calls


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("winners", help="a folder of `warptune export`")
    winners = arguments.parse_args().winners
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error.name} is not installed")
        return
    if not torch.cuda.is_available():
        print("skipped: there is no GPU here")
        return
    import warptune

    ops = warptune.load(winners, pdl=True)
    with torch.inference_mode():
        model, state = tiny_llama(torch, "cuda"), State(torch, "cuda")
        prompt = torch.randint(32000, (1, PROMPT), device="cuda")
        expected, fed = plain(model, prompt, STEPS)
        exact, _ = plain(copy.deepcopy(model).float(), prompt, STEPS, fed)
        _, before = seconds(torch, lambda: plain(model, prompt, STEPS), 3)

        replace(model, ops, state, torch)
        logits = replaced(model, state, prompt, fed)
        ours, theirs = error(logits, exact), error(expected, exact)
        _, after = seconds(torch, lambda: replaced(model, state, prompt, fed), 3)
        graph = captured(torch, lambda: run(model, fed[0]))
        _, step = seconds(torch, graph.replay, STEPS)
        eager, in_graph = time_of_a_call(torch, ops, model)
    print(f"relative L2 error of {len(logits)} logits against fp32: {ours:.2g}, of transformers in bf16 {theirs:.2g}")
    print(f"tokens/s: transformers {STEPS / before:.0f}, replaced {STEPS / after:.0f}, in a CUDA graph {1 / step:.0f}")
    print(f"rms_norm of a token: {eager:.1f} us of the host per eager call, {in_graph:.1f} us per call in a graph")
    if not ours < TOLERANCE * theirs:
        sys.exit(f"the error of the logits is more than {TOLERANCE} times that of transformers")


if __name__ == "__main__":
    main()
