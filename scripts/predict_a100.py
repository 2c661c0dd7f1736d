#!/usr/bin/env python3
"""Predicts what the variants for sm_80 take on an A100, from the rows of a Hopper GPU, and compares a sweep with it.

A prediction, not a measurement; prediction_model.py has the model. The program (WARPTUNE, else build/warptune) says
which configurations sm_80 accepts.
usage: predict_a100.py                       writes results/a100/predicted.csv and the tables of docs/a100.md
       predict_a100.py --check               exits with 1 unless both files are what it would write, or where sm_80
                                             refuses a row of predicted.csv
       predict_a100.py --backtest            predicts the H100 from the rows of the H200; exits with 1 where the error
                                             exceeds its bounds
       predict_a100.py --compare WISDOM      measured winners over the prediction (device.json beside WISDOM)
"""
import argparse
import csv
import io
import json
import math
import os
import re
import statistics
import sys
from pathlib import Path

from prediction_model import (A100, H100, Row, Source, Times, config_text, key_of, op_of, predict, recorded, recorded_rows,
                              refusals, rows_for_a100)
from sweep_rows import parse_problem, read_rows

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ["problem", "variant", "config", "recorded_us", "bytes", "flops", "bound", "floor_40gb_us",
           "predicted_40gb_us", "floor_80gb_us", "predicted_80gb_us", "untuned_80gb_us", "published_80gb_us"]
# A prediction is at most this many times as fast as the best published time, or as often as the source GPU shows.
MOST_AHEAD = 1.5
# Bounds of the backtest, for rows that are not mostly launch: percent, percent, rows within it.
MEDIAN_ERROR, MOST_ERROR, SHARE_WITHIN, LAUNCH_BOUND_US = 4, 8, 0.9, 5

# What others measured on an A100 80 GB, batch 1, bf16, tokens per second.
PUBLISHED = [("llama2-7b", 104.9, "gpt-fast", "https://github.com/pytorch-labs/gpt-fast"),
             ("llama2-7b", 107.4, "torchao", "https://github.com/pytorch/ao/tree/main/torchao/quantization"),
             ("llama3-8b", 95.6, "torchao", "https://github.com/pytorch/ao/tree/main/torchao/quantization")]
FLASH2_SHARE = (50, 73)  # percent of 312 TFLOP/s, forward: arXiv:2307.08691

# Models: layers, hidden, intermediate, heads, KV heads, vocabulary, and the context of the recorded decode run.
MODELS = {"llama2-7b": (32, 4096, 11008, 32, 32, 32000, 512), "llama3-8b": (32, 4096, 14336, 32, 8, 128256, 512)}


def published(path):
    """{problem: {"A100": (us, framework), ...}}: the best published times of several GPUs."""
    times = {}
    for row in read_rows(path):
        times.setdefault(row["problem"], {})[row["gpu"]] = (float(row["us"]), row["framework"])
    return times


def ahead_on_source(known, source, recorded_us):
    """How many times as fast as the best published time the source GPU ran the row; 0 where none is published."""
    us, _ = known.get(source.name.split()[0], (0, ""))
    return us / recorded_us


def predictions(source, program, known):
    """The rows of predicted.csv: of each problem the variant that is the fastest on the A100 80 GB."""
    rows = []
    for key, times in rows_for_a100(source, program).items():
        on = {card: [predict(key, times, row, source, A100[card]) for row in times.rows] for card in A100}
        best = min(range(len(times.rows)), key=lambda i: on["80gb"][i][0])
        row, (us, floor, bound), (us_40, floor_40, _) = times.rows[best], on["80gb"][best], on["40gb"][best]
        shown = known.get(key, {}).get("A100", ("", ""))[0]
        if shown:
            lowered = shown / max(MOST_AHEAD, ahead_on_source(known[key], source, row.us))
            if lowered > us:
                us, us_40, bound = lowered, us_40 * lowered / us, "published"
        untuned = max(us, statistics.median(t[0] for t in on["80gb"]))
        rows.append(dict(zip(COLUMNS, [
            key, row.variant, config_text(row.config), f"{row.us:.5g}", f"{times.bytes:.0f}", f"{times.flops:.0f}",
            bound, f"{floor_40:.5g}", f"{us_40:.5g}", f"{floor:.5g}", f"{us:.5g}", f"{untuned:.5g}", shown])))
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
    """What a step takes over the sum of its ops, in the newest tuned run of the source with the nearest context."""
    runs = [row for row in read_rows(folder / "decode.csv")
            if row["model"] == model and row["batch"] == "1" and re.match("tuned|step$", row["plan_set"])
            and "=" not in row["plan_set"]]
    nearest = min((abs(math.log(int(row["context"]) / MODELS[model][-1])) for row in runs), default=0)
    runs = [row for row in runs if abs(math.log(int(row["context"]) / MODELS[model][-1])) == nearest]
    return float(runs[-1]["us_per_token"]) / float(runs[-1]["sum_of_ops_us"]) if runs else 1.0


def row_of(rows, prefix):
    found = [row for row in rows if row["problem"].startswith(prefix) and "dtype=bf16" in row["problem"]]
    return min(found, key=lambda row: len(row["problem"])) if found else None


def step_table(rows, source, model):
    lines = [f"**{model}**, batch 1, {MODELS[model][-1]} keys, bf16, A100 80 GB (predicted):", "",
             f"| op | launches | variant | {source.name} us | floor us | predicted us | published us | of the step |",
             "|---|---|---|---|---|---|---|---|"]
    parts = []
    for name, count, prefix in step_problems(model):
        row = row_of(rows, prefix)
        if row is None:
            sys.exit(f"predict_a100: no recorded row of {source.folder} begins with '{prefix}'")
        parts.append((name, count, row))
    ratio = step_over_sum(source.folder, model)

    def total(column):
        return sum(n * float(row[column]) for _, n, row in parts)
    step, untuned, step_40 = (ratio * total(f"{name}_us") for name in
                              ("predicted_80gb", "untuned_80gb", "predicted_40gb"))
    floor, floor_40 = total("floor_80gb_us"), total("floor_40gb_us")
    for name, n, row in parts:
        us = float(row["predicted_80gb_us"])
        lines.append(f"| {name} | {n} | {row['variant']} | {float(row['recorded_us']):.2f} "
                     f"| {float(row['floor_80gb_us']):.2f} | {us:.2f} | {row['published_80gb_us']} "
                     f"| {100 * ratio * n * us / step:.1f} % |")
    lines += ["", f"| {model} | us per token | tokens/s | of the floor |", "|---|---|---|---|",
              f"| floor, 80 GB | {floor:.0f} | {1e6 / floor:.1f} | 100 % |",
              f"| tuned, 80 GB | {step:.0f} | {1e6 / step:.1f} | {100 * floor / step:.0f} % |",
              f"| untuned, 80 GB | {untuned:.0f} | {1e6 / untuned:.1f} | {100 * floor / untuned:.0f} % |",
              f"| tuned, 40 GB | {step_40:.0f} | {1e6 / step_40:.1f} | {100 * floor_40 / step_40:.0f} % |"]
    return lines, step


def label_of(key):
    """The problem without dims that are the same in most rows."""
    usual = r",(uneven=no|k_layout=sd|append=no|bias=no|causal=yes|head_dim=128|kv_scale=token|dtype=bf16)(?=[,\]])"
    return re.sub(usual, "", key)


def published_tables(rows, source, known):
    """Predicted times beside the best published ones: per op, and the rows that are far ahead of them."""
    lines = ["| op | rows | published over predicted: median | least | most |", "|---|---|---|---|---|"]
    compared = [(float(row["published_80gb_us"]) / float(row["predicted_80gb_us"]), row) for row in rows
                if row["published_80gb_us"]]
    for op in sorted({op_of(row["problem"]) for _, row in compared}):
        ratios = [ratio for ratio, row in compared if op_of(row["problem"]) == op]
        lines.append(f"| {op} | {len(ratios)} | {statistics.median(ratios):.2f} | {min(ratios):.2f} "
                     f"| {max(ratios):.2f} |")
    lines += ["", f"| far ahead of the published | predicted us | published us | times | {source.name} us "
              f"| published there, us | times |", "|---|---|---|---|---|---|---|"]
    for ratio, row in compared:
        is_lowered = row["bound"] == "published"
        if ratio > MOST_AHEAD or is_lowered:
            there = known[row["problem"]].get(source.name.split()[0])
            us, recorded_us = float(row["predicted_80gb_us"]), float(row["recorded_us"])
            lines.append(f"| {label_of(row['problem'])} | {us:.2f}{' (lowered)' if is_lowered else ''} "
                         f"| {row['published_80gb_us']} | {ratio:.2f} | {recorded_us:.2f} | "
                         + (f"{there[0]:.2f} | {there[0] / recorded_us:.2f} |" if there else "| |"))
    return lines


def error_summary(errors):
    """(median size in percent, how many are within MOST_ERROR, how many there are)."""
    sizes = [abs(error) for error in errors]
    return statistics.median(sizes), sum(size <= MOST_ERROR for size in sizes), len(sizes)


def backtest(source_folder, target_folder):
    """[(problem, variant, recorded us, predicted us, measured us, error in percent)]: the H100 from the rows of the
    H200, of every configuration that both recorded. Where a configuration was timed several times, the median."""
    source, measured = Source(source_folder), {}
    for key, byte_count, flops, row in recorded_rows(sorted(target_folder.rglob("*.csv"))):
        measured.setdefault(key, Times(byte_count, flops)).rows.append(row)

    def by_config(times):
        found = {}
        for row in times.rows:
            found.setdefault((row.variant, config_text(row.config)), []).append(row)
        return {identity: Row(statistics.median(row.us for row in rows), rows[0].variant, rows[0].config)
                for identity, rows in found.items()}
    rows = []
    for key, times in recorded(source_folder, measured).items():
        here = by_config(measured[key]) if key in measured else {}
        for identity, row in by_config(times).items():
            if identity in here and row.variant != "naive":
                us, measured_us = predict(key, times, row, source, H100)[0], here[identity].us
                rows.append((key, row.variant, row.us, us, measured_us, 100 * (us / measured_us - 1)))
    return sorted(rows)


def backtest_table(found):
    """Per op, and the rows of at least LAUNCH_BOUND_US with the largest errors."""
    lines = [f"| H100 from the H200 | rows of {LAUNCH_BOUND_US} us or more | median size of the error "
             f"| within {MOST_ERROR} % | shorter rows | median size of the error | within {MOST_ERROR} % |",
             "|---|---|---|---|---|---|---|"]
    long, short = ([row for row in found if (row[4] >= LAUNCH_BOUND_US) == is_long] for is_long in (True, False))
    for op in [*sorted({op_of(row[0]) for row in found}), ""]:
        cells = []
        for rows in (long, short):
            errors = [row[-1] for row in rows if op in ("", op_of(row[0]))]
            median, within, count = error_summary(errors) if errors else ("", "", 0)
            cells += [f"{count}", f"{median:.1f} %" if errors else "", f"{within}"]
        lines.append(f"| {op or 'all'} | {' | '.join(cells)} |")
    lines += ["", "| largest errors | variant | H200 us | predicted us | measured us | error |",
              "|---|---|---|---|---|---|"]
    worst = sorted(long, key=lambda row: row[-1])
    return lines + [f"| {label_of(key)} | {variant} | {recorded_us:.2f} | {us:.2f} | {here:.2f} | {error:+.1f} % |"
                    for key, variant, recorded_us, us, here, error in worst[:4] + worst[max(4, len(worst) - 4):]]


def published_backtest(known, source):
    """The same method on published times of cuBLAS: an A100 from the H200, both of which others measured."""
    errors = {"1 to 16": [], "64": [], "512, 2048": []}
    for key, on in known.items():
        op, dims = parse_problem(key)
        if op == "linear" and {"A100", "H200"} <= on.keys():
            tokens, k, n = (int(dims[name]) for name in ("tokens", "in", "out"))
            times = Times(2 * (k * n + tokens * (k + n)), 2 * tokens * k * n)
            us = predict(key, times, Row(on["H200"][0], "cublaslt", {}), source, A100["80gb"])[0]
            group = "1 to 16" if tokens <= 16 else "64" if tokens <= 64 else "512, 2048"
            errors[group].append(100 * (us / on["A100"][0] - 1))
    lines = ["| `linear` of cuBLAS, tokens | rows | median error | median size of it | least | most |",
             "|---|---|---|---|---|---|"]
    return lines + [
        f"| {tokens} | {len(es)} | {statistics.median(es):+.1f} % | {statistics.median(map(abs, es)):.1f} % "
        f"| {min(es):+.1f} % | {max(es):+.1f} % |" for tokens, es in errors.items()]


def tables(rows, source, given):
    """The Markdown between the markers of docs/a100.md."""
    known = published(given.published)
    lines, steps = [], {}
    for model in MODELS:
        table, steps[model] = step_table(rows, source, model)
        lines += table + [""]
    lines += ["| published, A100 80 GB | tokens/s | predicted here | ratio |", "|---|---|---|---|"]
    for model, rate, name, url in PUBLISHED:
        here = 1e6 / steps[model]
        lines.append(f"| {model}, [{name}]({url}) | {rate} | {here:.1f} | {here / rate:.2f} |")
    low, high = FLASH2_SHARE
    lines += ["", "| forward attention, share of 312 TFLOP/s | predicted | published |", "|---|---|---|",
              f"| [FlashAttention-2](https://arxiv.org/abs/2307.08691) | | {low} to {high} % |"]
    for q_len in (512, 2048, 8192):
        row = row_of(rows, f"attention_prefill[batch=1,q_len={q_len},kv_len={q_len},q_heads=32,kv_heads=32,"
                           "head_dim=128,causal=yes,uneven=no")
        share, shown = (float(row["flops"]) / float(row[f"{name}_80gb_us"]) * 1e-4 / A100["80gb"].matrix_tflop_per_s
                        for name in ("predicted", "published"))
        lines.append(f"| {q_len} tokens, causal, 32 heads of 128 | {share:.0f} % | {shown:.0f} % |")
    lines += [""] + published_tables(rows, source, known)
    lines += [""] + backtest_table(backtest(given.backtest_source, given.backtest_target))
    lines += [""] + published_backtest(known, Source(given.backtest_source))
    return "\n".join(lines) + "\n"


def csv_text(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def refused_rows(program, path):
    """The rows of a predicted.csv that sm_80 refuses, each with the reason."""
    rows = [(row["problem"], row["variant"], row["config"]) for row in read_rows(path)]
    return list(refusals(program, [row for row in rows if row[1] != "cublaslt"]).values())


MARKERS = ("<!-- predict_a100.py begins -->\n", "<!-- predict_a100.py ends -->\n")


def with_tables(page, text):
    before, rest = page.split(MARKERS[0])
    return before + MARKERS[0] + "\n" + text + "\n" + MARKERS[1] + rest.split(MARKERS[1])[1]


def without_dtype(key):
    return re.sub(r",dtype=(bf16|fp16)\]$", "]", key)


def compare(wisdom, predicted):
    """Measured winners over the prediction for this card."""
    known = {without_dtype(row["problem"]): row for row in read_rows(predicted)}
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


def check(given, wanted):
    """Exits with 1 where sm_80 refuses a row of predicted.csv, or where a file is not what it is to be."""
    if given.predicted.is_file() and (refused := refused_rows(given.program, given.predicted)):
        rows = f"{len(refused)} row{'s' if len(refused) > 1 else ''}"
        sys.exit("\n".join([f"predict_a100: sm_80 refuses {rows} of {given.predicted}:", *refused]))
    stale = [str(path) for path, content in wanted.items() if not path.is_file() or path.read_text() != content]
    if stale:
        sys.exit(f"predict_a100: {', '.join(stale)}: not what the rows of {given.results} give; run {sys.argv[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results/h200",
                        help="the folder of a Hopper GPU, or of a rehearsal of sm_80 on one")
    parser.add_argument("--predicted", type=Path, default=ROOT / "results/a100/predicted.csv")
    parser.add_argument("--published", type=Path, default=ROOT / "results/a100/published.csv")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/a100.md")
    parser.add_argument("--backtest-source", type=Path, default=ROOT / "results/h200", help="the folder of the H200")
    parser.add_argument("--backtest-target", type=Path, default=ROOT / "results/h100", help="the folder of the H100")
    parser.add_argument("--program", default=os.environ.get("WARPTUNE") or str(ROOT / "build/warptune"))
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    parser.add_argument("--backtest", action="store_true", help="predict the H100 and compare with its rows")
    parser.add_argument("--compare", type=Path, metavar="WISDOM", help="a measured wisdom.json")
    given = parser.parse_args()
    if given.compare:
        for path in (given.compare, given.compare.parent / "device.json", given.predicted):
            if not path.is_file():
                parser.error(f"there is no '{path}'")
        return compare(given.compare, given.predicted)
    if given.backtest:
        found = backtest(given.backtest_source, given.backtest_target)
        if not found:
            sys.exit(f"predict_a100: {given.backtest_target} has no configuration of {given.backtest_source}")
        print("\n".join(backtest_table(found)))
        median, within, count = error_summary([row[-1] for row in found if row[4] >= LAUNCH_BOUND_US])
        return int(median > MEDIAN_ERROR or within < SHARE_WITHIN * count)
    source = Source(given.results)
    rows = predictions(source, given.program, published(given.published))
    text = tables(rows, source, given)
    wanted = {given.predicted: csv_text(rows)}
    if given.page.is_file():
        wanted[given.page] = with_tables(given.page.read_text(), text)
    if given.check:
        return check(given, wanted)
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    print(text, end="")
    return None


if __name__ == "__main__":
    sys.exit(main())
