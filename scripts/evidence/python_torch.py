#!/usr/bin/env python3
"""Measures the Python package on a GPU: a transformers LLaMA with and without the winners, and the cost of a call.

    scripts/evidence/run.sh python_torch

Writes python_torch.csv, a row per quantity: its value, its unit, the bar (the value must not exceed it) and what it was
measured on. Host time of a call is the least of 5 means over 200 eager calls. Exits with 1 if a bar is not met.
"""

import copy
import ctypes
import importlib.util
import time

import evidence

MOST_HOST_US = 6
CALLS = 200


def example():
    path = evidence.ROOT / "examples" / "python" / "llama_torch.py"
    spec = importlib.util.spec_from_file_location("llama_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Rows:
    """The CSV, written again with each row so that a failure keeps what was measured."""

    def __init__(self, path, columns):
        self._path, self._columns, self._rows, self.missed = path, columns, [], []

    def add(self, quantity, value, unit, bar=""):
        self._rows.append({"quantity": quantity, "value": f"{value:.5g}", "unit": unit, "bar": bar, **self._columns})
        evidence.write_csv(self._path, self._rows)
        print(f"{quantity}: {value:.5g} {unit}", flush=True)
        if bar != "" and not value <= bar:
            self.missed.append(f"{quantity} is {value:.3g} {unit}, the bar is {bar:.3g}")


def calls_of_a_layer(torch, ops, model, state):
    """Each op as a layer calls it for one token."""
    layer = model.model.layers[0]
    rows = torch.randn(1, model.config.hidden_size, dtype=torch.bfloat16, device="cuda")
    norm, rope = layer.input_layernorm.weight, model.model.rotary_emb.inv_freq
    qkv = ops.linear(rows, layer.qkv).view(1, -1, layer.self_attn.head_dim)
    gate_up = ops.linear(rows, layer.gate_up)
    place = state.step["sequence"], state.step["position"]
    q = ops.rope_append(qkv, layer.k, layer.v, *place, rope)
    attended, sums = ops.attention_decode(q, layer.k, layer.v, state.lengths), ops.add_rms_norm(rows, rows, norm)
    return {
        "rms_norm": lambda: ops.rms_norm(rows, norm),
        "add_rms_norm": lambda: ops.add_rms_norm(rows, rows, norm),
        "linear": lambda: ops.linear(rows, layer.qkv),
        "swiglu": lambda: ops.swiglu(gate_up),
        "rope_append": lambda: ops.rope_append(qkv, layer.k, layer.v, *place, rope),
        "attention_decode": lambda: ops.attention_decode(q, layer.k, layer.v, state.lengths),
        "add_rms_norm, outputs given": lambda: ops.add_rms_norm(rows, rows, norm, out=sums),
        "rope_append, output given": lambda: ops.rope_append(qkv, layer.k, layer.v, *place, rope, out=q),
        "attention_decode, output given": lambda: ops.attention_decode(q, layer.k, layer.v, state.lengths, out=attended),
        "torch.rms_norm": lambda: torch.nn.functional.rms_norm(rows, norm.shape, norm),
        "torch.linear": lambda: torch.nn.functional.linear(rows, layer.qkv),
    }


def nodes_of(graph):
    """The number of nodes of a graph that was captured with keep_graph."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t()
    if driver.cuGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count)):
        raise RuntimeError("cuGraphGetNodes failed")
    return count.value


def measure_calls(torch, llama, ops, model, state, rows):
    for name, call in calls_of_a_layer(torch, ops, model, state).items():
        host = min(llama.seconds(torch, call, CALLS)[0] for _ in range(5))
        ours = not name.startswith("torch.")
        rows.add(f"host time of a call, {name}", 1e6 * host, "us", MOST_HOST_US if ours else "")
    call = calls_of_a_layer(torch, ops, model, state)["rms_norm"]
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    rows.add("nodes of a CUDA graph per call of rms_norm", nodes_of(graph) / CALLS, "nodes", 1)
    graph.instantiate()
    rows.add("time of rms_norm in a CUDA graph", 1e6 * llama.seconds(torch, graph.replay, 10)[1] / CALLS, "us")


def measure_model(torch, llama, ops, rows):
    steps = llama.STEPS
    model, state = llama.tiny_llama(torch, "cuda"), llama.State(torch, "cuda")
    prompt = torch.randint(32000, (1, llama.PROMPT), device="cuda")
    expected, fed = llama.plain(model, prompt, steps)
    exact, _ = llama.plain(copy.deepcopy(model).float(), prompt, steps, fed)
    theirs = llama.error(expected, exact)
    rows.add("error of the logits against fp32, transformers", theirs, "relative L2")
    before = llama.seconds(torch, lambda: llama.plain(model, prompt, steps), 2)[1]
    rows.add("tokens/s, transformers", steps / before, "tokens/s")

    llama.replace(model, ops, state, torch)
    logits = llama.replaced(model, state, prompt, fed)
    bar = llama.TOLERANCE * theirs
    rows.add("error of the logits against fp32, replaced", llama.error(logits, exact), "relative L2", bar)
    after = llama.seconds(torch, lambda: llama.replaced(model, state, prompt, fed), 2)[1]
    rows.add("tokens/s, replaced, eager", steps / after, "tokens/s")
    token = fed[0].clone()
    graph = llama.captured(torch, lambda: llama.run(model, token))
    rows.add("tokens/s, replaced, in a CUDA graph", 1 / llama.seconds(torch, graph.replay, steps)[1], "tokens/s")
    measure_calls(torch, llama, ops, model, state, rows)

    begin = time.perf_counter()
    step = torch.compile(lambda ids: llama.run(model, ids), fullgraph=True)
    last = step(fed[-1])
    torch.cuda.synchronize()
    rows.add("time of torch.compile, a step of 22 layers", time.perf_counter() - begin, "s")
    rows.add("error of the logits against fp32, compiled", llama.error([last], exact[-1:]), "relative L2", bar)
    compiled = llama.seconds(torch, lambda: step(token), steps)[1]
    rows.add("tokens/s, replaced, torch.compile", 1 / compiled, "tokens/s")


def main():
    parser = evidence.parser(__doc__)
    parser.add_argument("winners", help="a folder of `warptune export`")
    given = parser.parse_args()
    try:
        import torch
        import transformers
        import warptune
    except ImportError as error:
        evidence.stop(f"{error.name} is not installed")
    if not torch.cuda.is_available():
        evidence.stop("there is no GPU here")
    columns = {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
               "transformers": transformers.__version__}
    rows = Rows(given.out / "python_torch.csv", columns)
    with torch.inference_mode():
        measure_model(torch, example(), warptune.load(given.winners, pdl=True), rows)
    evidence.verdict("python_torch", not rows.missed, "; ".join(rows.missed) or "every bar is met")


if __name__ == "__main__":
    main()
