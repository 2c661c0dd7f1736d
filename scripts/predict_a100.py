#!/usr/bin/env python3
"""Predicts what the variants for sm_80 take on an A100, from the rows of the H200, and compares a sweep with it.

A prediction, not a measurement. Per problem and variant, with the time t of the H200 (cold, CUDA graph):
  body      t less the cost of a graph node
  memory    bytes / bandwidth of the A100, plus what the body lost beyond its roofline floor (latency, tail), in clocks
  compute   flops / (312 TFLOP/s * the share of its own peak that the H200 reached), times the change of waves
  A100      cost of a graph node + what dependent launch hid, in clocks + max(memory, compute)
usage: predict_a100.py                       writes results/a100/predicted.csv, prints the tables of docs/a100.md
       predict_a100.py --check               exits with 1 unless both files are what it would write
       predict_a100.py --compare WISDOM      measured winners over the prediction (device.json beside WISDOM)
"""
import argparse
import csv
import io
import json
import math
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ["problem", "variant", "config", "h200_us", "bytes", "flops", "bound", "floor_40gb_us", "predicted_40gb_us",
           "floor_80gb_us", "predicted_80gb_us", "untuned_80gb_us"]

# The H200 of results/h200: device.json, and the clock of its rows.
H200_CLOCK_MHZ, H200_SMS = 1980, 132
# mma.sync reaches about 63 % of the wgmma rate on Hopper (arXiv:2402.13499); on the A100 it is the only path.
HOPPER_MMA_SHARE = 0.63
PDL_HIDES_US = 0.52  # rms_norm of one row, with and without programmatic dependent launch (results/h200/wisdom.json)

# The A100: data sheet, and what A100s read at best.
A100_CLOCK_MHZ, A100_SMS, A100_SHARED_PER_BLOCK = 1410, 108, 163 << 10
A100_SHARED_PER_SM, REGISTERS_PER_SM, THREADS_PER_SM = 164 << 10, 65536, 2048
H200_SHARED_PER_SM = 228 << 10
A100_BF16_TFLOP = 312.0
A100_FP32_TFLOP = 19.5
READ_GB = {"40gb": 1380.0, "80gb": 1800.0}
CLOCKS = H200_CLOCK_MHZ / A100_CLOCK_MHZ

SM90_ONLY = {("linear", "gemv_bulk_copy"), ("linear", "gemv_mma"), ("linear", "mma_bulk_copy"), ("linear", "wgmma"),
             ("linear", "wgmma_streaming"), ("attention_decode", "pipelined"), ("attention_decode", "mma_pipelined"),
             ("attention_decode", "mma_project"), ("attention_prefill", "flash_wgmma")}
MMA_SYNC = {"mma", "flash_mma", "mem_efficient", "mma_direct"}
CLUSTER = 2  # the value of the parameter combine that needs thread block clusters

# What others measured on an A100 80 GB, batch 1, bf16, tokens per second.
PUBLISHED = [("llama2-7b", 104.9, "gpt-fast", "https://github.com/pytorch-labs/gpt-fast"),
             ("llama2-7b", 107.4, "torchao", "https://github.com/pytorch/ao/tree/main/torchao/quantization"),
             ("llama3-8b", 95.6, "torchao", "https://github.com/pytorch/ao/tree/main/torchao/quantization")]
FLASH2_SHARE = (50, 73)  # percent of 312 TFLOP/s, forward: arXiv:2307.08691

# Models: layers, hidden, intermediate, heads, KV heads, vocabulary, and the context of the recorded decode run.
MODELS = {"llama2-7b": (32, 4096, 11008, 32, 32, 32000, 512), "llama3-8b": (32, 4096, 14336, 32, 8, 128256, 512)}


def text_of(value):
    return value[1] if isinstance(value, list) else str(value)


def key_of(winner):
    dims = ",".join(f"{name}={text_of(value)}" for name, value in winner["dims"].items())
    return f"{winner['op']}[{dims},dtype={winner['dtype']}]"


def config_of(text):
    """block=64,combine=ll -> {'block': '64', 'combine': 'll'}"""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def dims_of(key):
    return config_of(key[key.index("[") + 1:-1])


def registers_of_flash_mma(dims, config):
    """The estimate in the constraints of flash_mma, of plain heads."""
    rows = int(config["tile_m"]) // int(config["warps"]) // 16
    tile_n, head_dim = int(config["tile_n"]), -(-int(dims["head_dim"]) // 16) * 16
    held = head_dim // 2 if config.get("q_in_regs") == "1" else 0
    return rows * (tile_n + head_dim + held) + tile_n * head_dim / 128 / int(config["warps"])


def on_sm80(op, variant, dims, config):
    """The configuration on the A100, with as many blocks per SM; None where sm_80 refuses it."""
    if (op, variant) in SM90_ONLY or variant == "naive" or config.get("combine") in (str(CLUSTER), "cluster"):
        return None
    if op == "attention_decode" and int(config.get("splits", 1)) % 33 == 0:  # a quarter of the H200's SMs
        return None
    if op == "attention_decode" and variant == "mma":
        ring = int(config["warps"]) * int(config["stages"]) * 4 * int(config["tile_kv"]) * (int(dims["head_dim"]) + 8)
        if ring > A100_SHARED_PER_BLOCK:
            return None
    if variant == "mma_direct" and dims.get("kv_dtype") == "fp8":  # it converts in hardware, from sm_89 on
        return None
    if variant == "gemv_cp_async":
        per_sm, rest = divmod(int(config["grid_blocks"]), H200_SMS)
        prologue = int(dims["in"]) * int(dims["tokens"]) * 2 if dims.get("prologue", "none") == "rms_norm" else 0
        ring = int(config["warps"]) * int(config["stages"]) * int(config["unroll"]) * 512
        if rest or per_sm * (ring + 1024 + prologue) > A100_SHARED_PER_BLOCK:
            return None
        return config | {"grid_blocks": str(per_sm * A100_SMS)}
    if variant == "flash_mma" and int(config["tile_n"]) >= 128 and registers_of_flash_mma(dims, config) >= 336:
        return None
    return config


class Times:
    """The recorded times of one problem: [(us, variant, config, resources)]."""

    def __init__(self, byte_count, flops):
        self.bytes, self.flops, self.rows = byte_count, flops, []


def recorded(folder):
    """Times by problem key: from the CSVs, and from the wisdom."""
    problems = {}
    for path in sorted(folder.glob("*.csv")):
        if path.stem.endswith("_peers"):  # other people's kernels
            continue
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            if not {"problem", "variant", "status", "bytes", "shared_bytes"} <= set(reader.fieldnames or []):
                continue
            for row in reader:
                if row["op"] == "launch" or row["status"] != "ok" or row["cache"] != "cold":
                    continue
                times = problems.setdefault(row["problem"], Times(float(row["bytes"]), float(row["flops"])))
                config = on_sm80(row["op"], row["variant"], dims_of(row["problem"]), config_of(row["config"]))
                shared = int(row["shared_bytes"] or 0)
                if config is not None and shared <= A100_SHARED_PER_BLOCK:
                    times.rows.append((float(row["time_us"]), row["variant"], config,
                                       (int(row["registers"] or 0), shared)))
    for winner in json.loads((folder / "wisdom.json").read_text())["winners"]:
        times = problems.get(key_of(winner))
        if not times or winner.get("cache", "cold") != "cold":
            continue
        for variant, kept in winner.get("times", {}).items():
            names = kept["parameters"].split()
            for row in kept["rows"]:
                *values, us = row.split()
                config = on_sm80(winner["op"], variant, dims_of(key_of(winner)), dict(zip(names, values)))
                if config is not None:
                    times.rows.append((float(us), variant, config, (0, 0)))
    return problems


def blocks_of(op, dims, config):
    """Thread blocks of the tensor-core kernels with one block per output tile; None where tiles are not that."""
    if "tile_m" not in config or "tile_n" not in config:
        return None
    tile_m, splits = int(config["tile_m"]), int(config.get("splits", 1))
    if op == "linear":
        return math.ceil(int(dims["tokens"]) / tile_m) * math.ceil(int(dims["out"]) / int(config["tile_n"])) * splits
    if op == "attention_prefill":
        return int(dims["batch"]) * int(dims["q_heads"]) * math.ceil(int(dims["q_len"]) / tile_m) * splits
    return None


def waves(blocks, sms, per_sm):
    """How much longer whole waves take than a device that is full to the end."""
    slots = sms * per_sm
    return math.ceil(blocks / slots) * slots / blocks if blocks > slots else 1.0


def resident(config, resources, shared_per_sm):
    """Blocks per SM; 1 where the resources are not recorded."""
    registers, shared = resources
    threads = int(config.get("block", 32 * int(config.get("warps", 8))))
    if not registers:
        return 1
    limits = [THREADS_PER_SM // threads, REGISTERS_PER_SM // (registers * threads)]
    limits.append(shared_per_sm // (shared + 1024))
    return max(1, min(limits))


def predict(op, dims, times, row, card, h200):
    """(us on the A100, its floor, what bounds it)."""
    us, variant, config, resources = row
    pdl = config.get("pdl") == "1"
    calibration = h200["calibration"]
    body = max(us - (calibration["graph_node_pdl_us"] if pdl else calibration["graph_node_us"]), 0.01)
    is_matrix = op in ("linear", "attention_decode", "attention_prefill")
    rate = h200["matrix_tflop_per_s"] if is_matrix else h200["vector_tflop_per_s"]
    if variant in MMA_SYNC:
        rate *= HOPPER_MMA_SHARE
    a100_rate = A100_BF16_TFLOP if is_matrix else A100_FP32_TFLOP
    memory_h200 = times.bytes / h200["read_gb_per_s"] * 1e-3
    compute_h200 = times.flops / rate * 1e-6
    memory = times.bytes / READ_GB[card] * 1e-3
    compute = times.flops / a100_rate * 1e-6
    floor = max(memory, compute)
    if compute_h200 > memory_h200:
        compute /= min(compute_h200 / body, 1)
        if blocks := blocks_of(op, dims, config):
            compute *= (waves(blocks, A100_SMS, resident(config, resources, A100_SHARED_PER_SM)) /
                        waves(blocks, H200_SMS, resident(config, resources, H200_SHARED_PER_SM)))
    else:
        memory += max(body - memory_h200, 0) * CLOCKS
    bound = "compute" if compute > memory else "memory" if memory < 2 * floor else "latency"
    launch = (calibration["graph_node_us"] + (PDL_HIDES_US if pdl else 0)) * CLOCKS
    return launch + max(memory, compute), floor, bound


def predictions(folder):
    """The rows of predicted.csv: of each problem the variant that is the fastest on the A100 80 GB."""
    h200 = json.loads((folder / "device.json").read_text())
    rows = []
    for key, times in recorded(folder).items():
        op, dims = key[:key.index("[")], dims_of(key)
        if not times.rows:
            continue
        on = {card: [predict(op, dims, times, row, card, h200) for row in times.rows] for card in READ_GB}
        best = min(range(len(times.rows)), key=lambda i: on["80gb"][i][0])
        us, variant, config, _ = times.rows[best]
        rows.append(dict(zip(COLUMNS, [
            key, variant, ",".join(f"{name}={value}" for name, value in config.items() if name != "pdl"), f"{us:.5g}",
            f"{times.bytes:.0f}", f"{times.flops:.0f}", on["80gb"][best][2],
            f"{on['40gb'][best][1]:.5g}", f"{on['40gb'][best][0]:.5g}",
            f"{on['80gb'][best][1]:.5g}", f"{on['80gb'][best][0]:.5g}",
            f"{statistics.median(t[0] for t in on['80gb']):.5g}"])))
    return sorted(rows, key=lambda row: row["problem"])


def step_problems(model):
    """(op, launches per step, key prefix that finds its row) of a decode step at batch 1."""
    layers, hidden, intermediate, heads, kv_heads, vocab, context = MODELS[model]
    qkv = (heads + 2 * kv_heads) * 128
    attention = (f"attention_decode[batch=1,q_heads={heads},kv_heads={kv_heads},head_dim=128,context={context},"
                 "uneven=no,k_layout=sd,append=no,")
    linear = "linear[tokens=1,in={},out={},bias=no,dtype=bf16]"
    return [
        ("embedding", 1, f"embedding[tokens=1,vocab={vocab},hidden={hidden},dtype=bf16]"),
        ("rms_norm", 1, f"rms_norm[tokens=1,hidden={hidden},dtype=bf16]"),
        ("linear qkv", layers, linear.format(hidden, qkv)),
        ("rope_append", layers, f"rope_append[tokens=1,q_heads={heads},kv_heads={kv_heads},head_dim=128,"),
        ("attention_decode", layers, attention),
        ("linear o", layers, linear.format(heads * 128, hidden)),
        ("add_rms_norm", 2 * layers, f"add_rms_norm[tokens=1,hidden={hidden},dtype=bf16]"),
        ("linear gate_up", layers, linear.format(hidden, 2 * intermediate)),
        ("swiglu", layers, f"swiglu[tokens=1,intermediate={intermediate},"),
        ("linear down", layers, linear.format(intermediate, hidden)),
        ("linear lm_head", 1, linear.format(hidden, vocab)),
        ("argmax", 1, f"argmax[batch=1,vocab={vocab},"),
    ]


def step_over_sum(folder, model):
    """What a step takes over the sum of its ops, in the newest tuned run of the H200 with the nearest context."""
    with open(folder / "decode.csv", newline="") as file:
        runs = [row for row in csv.DictReader(file)
                if row["model"] == model and row["batch"] == "1" and row["plan_set"].startswith("tuned")
                and "=" not in row["plan_set"]]
    nearest = min((abs(math.log(int(row["context"]) / MODELS[model][-1])) for row in runs), default=0)
    runs = [row for row in runs if abs(math.log(int(row["context"]) / MODELS[model][-1])) == nearest]
    return float(runs[-1]["us_per_token"]) / float(runs[-1]["sum_of_ops_us"]) if runs else 1.0


def row_of(rows, prefix):
    found = [row for row in rows if row["problem"].startswith(prefix) and "dtype=bf16" in row["problem"]]
    return min(found, key=lambda row: len(row["problem"])) if found else None


def step_table(rows, folder, model):
    lines = [f"**{model}**, batch 1, {MODELS[model][-1]} keys, bf16, A100 80 GB (predicted):", "",
             "| op | launches | variant | H200 us | floor us | predicted us | of the step |",
             "|---|---|---|---|---|---|---|"]
    parts = []
    for name, count, prefix in step_problems(model):
        row = row_of(rows, prefix)
        if row is None:
            sys.exit(f"predict_a100: no recorded row of the H200 begins with '{prefix}'")
        parts.append((name, count, row))
    ratio = step_over_sum(folder, model)
    step, floor, untuned = (ratio * sum(n * float(r["predicted_80gb_us"]) for _, n, r in parts),
                            sum(n * float(r["floor_80gb_us"]) for _, n, r in parts),
                            ratio * sum(n * float(r["untuned_80gb_us"]) for _, n, r in parts))
    step_40 = ratio * sum(n * float(r["predicted_40gb_us"]) for _, n, r in parts)
    floor_40 = sum(n * float(r["floor_40gb_us"]) for _, n, r in parts)
    for name, n, row in parts:
        us = float(row["predicted_80gb_us"])
        lines.append(f"| {name} | {n} | {row['variant']} | {float(row['h200_us']):.2f} "
                     f"| {float(row['floor_80gb_us']):.2f} | {us:.2f} | {100 * ratio * n * us / step:.1f} % |")
    lines += ["", f"| {model} | us per token | tokens/s | of the floor |", "|---|---|---|---|",
              f"| floor, 80 GB | {floor:.0f} | {1e6 / floor:.1f} | 100 % |",
              f"| tuned, 80 GB | {step:.0f} | {1e6 / step:.1f} | {100 * floor / step:.0f} % |",
              f"| untuned, 80 GB | {untuned:.0f} | {1e6 / untuned:.1f} | {100 * floor / untuned:.0f} % |",
              f"| tuned, 40 GB | {step_40:.0f} | {1e6 / step_40:.1f} | {100 * floor_40 / step_40:.0f} % |"]
    return lines, step


def tables(rows, folder):
    """The Markdown between the markers of docs/a100.md."""
    lines, steps = [], {}
    for model in MODELS:
        table, steps[model] = step_table(rows, folder, model)
        lines += table + [""]
    lines += ["| published, A100 80 GB | tokens/s | predicted here | ratio |", "|---|---|---|---|"]
    for model, rate, name, url in PUBLISHED:
        here = 1e6 / steps[model]
        lines.append(f"| {model}, [{name}]({url}) | {rate} | {here:.1f} | {here / rate:.2f} |")
    shares = {}
    for q_len in (512, 2048, 8192):
        row = row_of(rows, f"attention_prefill[batch=1,q_len={q_len},kv_len={q_len},q_heads=32,kv_heads=32,"
                           "head_dim=128,causal=yes,uneven=no")
        shares[q_len] = 100 * float(row["flops"]) / float(row["predicted_80gb_us"]) * 1e-6 / A100_BF16_TFLOP
    low, high = FLASH2_SHARE
    lines += ["", "| forward attention, share of 312 TFLOP/s | |", "|---|---|",
              f"| published: [FlashAttention-2](https://arxiv.org/abs/2307.08691) | {low} to {high} % |"]
    lines += [f"| predicted: {q_len} tokens, causal, 32 heads of 128 | {share:.0f} % |"
              for q_len, share in shares.items()]
    return "\n".join(lines) + "\n"


def csv_text(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


MARKERS = ("<!-- predict_a100.py begins -->\n", "<!-- predict_a100.py ends -->\n")


def with_tables(page, text):
    before, rest = page.split(MARKERS[0])
    return before + MARKERS[0] + "\n" + text + "\n" + MARKERS[1] + rest.split(MARKERS[1])[1]


def without_dtype(key):
    return re.sub(r",dtype=(bf16|fp16)\]$", "]", key)


def compare(wisdom, predicted):
    """Measured winners over the prediction for this card."""
    with open(predicted, newline="") as file:
        known = {without_dtype(row["problem"]): row for row in csv.DictReader(file)}
    facts = json.loads((wisdom.parent / "device.json").read_text())
    card = "80gb" if facts.get("memory_bytes", 0) > 60e9 else "40gb"
    lines = []
    for winner in json.loads(wisdom.read_text())["winners"]:
        row = known.get(without_dtype(key_of(winner)))
        if row and winner["dtype"] in ("bf16", "fp16"):
            expected = float(row[f"predicted_{card}_us"])
            lines.append((winner["time_us"] / expected, winner["time_us"], expected, key_of(winner),
                          f"{winner['variant']} (predicted {row['variant']})"))
    if not lines:
        print(f"none of the winners in {wisdom} is predicted in {predicted}")
        return
    print(f"measured over predicted, {facts['name']} as an A100 of {card.replace('gb', ' GB')}:")
    print(f"{'ratio':>6}  {'us':>9}  {'predicted':>9}  problem")
    for ratio, us, expected, key, variants in sorted(lines, reverse=True):
        print(f"{ratio:6.2f}  {us:9.2f}  {expected:9.2f}  {key} {variants}")
    ratios = [line[0] for line in lines]
    print(f"{len(lines)} problems: median ratio {statistics.median(ratios):.2f}, "
          f"{min(ratios):.2f} to {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results/h200", help="the folder of the H200")
    parser.add_argument("--predicted", type=Path, default=ROOT / "results/a100/predicted.csv")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/a100.md")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    parser.add_argument("--compare", type=Path, metavar="WISDOM", help="a measured wisdom.json")
    given = parser.parse_args()
    if given.compare:
        for path in (given.compare, given.compare.parent / "device.json", given.predicted):
            if not path.is_file():
                parser.error(f"there is no '{path}'")
        return compare(given.compare, given.predicted)
    rows = predictions(given.results)
    text = tables(rows, given.results)
    wanted = {given.predicted: csv_text(rows)}
    if given.page.is_file():
        wanted[given.page] = with_tables(given.page.read_text(), text)
    if given.check:
        stale = [str(path) for path, content in wanted.items() if not path.is_file() or path.read_text() != content]
        if stale:
            sys.exit(f"predict_a100: {', '.join(stale)}: not what the rows of {given.results} give; run {sys.argv[0]}")
        return None
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    print(text, end="")
    return None


if __name__ == "__main__":
    main()
