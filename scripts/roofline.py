#!/usr/bin/env python3
"""The roofline of a device with the winners of its sweeps, as SVG: scripts/roofline.py results/h200 -o docs/roofline.svg

Reads device.json (measured peaks) and every sweep's CSV beside it; of each problem it draws the fastest cold row."""
import argparse
import json
import math
from pathlib import Path

from sweep_rows import fastest, read_rows

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 920, 460, 70, 20, 30, 52
X_RANGE, Y_RANGE = (0.1, 6000), (0.1, 1200)  # FLOP/byte, TFLOP/s
FAMILIES = {
    "decode attention": ("#1f77b4", ("attention_decode",)),
    "prefill attention": ("#d62728", ("attention_prefill",)),
    "linear": ("#2ca02c", ("linear",)),
    "row-wise ops": ("#9467bd", ("rms_norm", "add_rms_norm", "swiglu", "softmax", "rope_append")),
}


def winners(folder: Path) -> list[dict]:
    """The fastest cold, verified row of each problem with arithmetic."""
    rows = []
    for path in sorted(folder.glob("*.csv")):
        if not path.name.endswith("_peers.csv"):
            rows += [row for row in read_rows(path) if row.get("status") == "ok" and row["cache"] == "cold"
                     and float(row["flops"] or 0) > 0]
    return list(fastest(rows, lambda row: row["problem"]).values())


def scale(value: float, limits: tuple[float, float], low: float, high: float) -> float:
    return low + math.log(value / limits[0]) / math.log(limits[1] / limits[0]) * (high - low)


def x_of(intensity: float) -> float:
    return scale(intensity, X_RANGE, LEFT, WIDTH - RIGHT)


def y_of(tflops: float) -> float:
    return scale(tflops, Y_RANGE, HEIGHT - BOTTOM, TOP)


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{words}</text>'


def axes() -> list[str]:
    parts = []
    for exponent in range(-1, 4):
        x = x_of(10.0**exponent)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 18, f"{10.0**exponent:g}"))
        if 10.0**exponent <= Y_RANGE[1]:
            y = y_of(10.0**exponent)
            parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(text(LEFT - 8, y + 4, f"{10.0**exponent:g}", "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "arithmetic intensity, FLOP per compulsory byte"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(text(20, middle, "TFLOP/s", extra=f'transform="rotate(-90 20 {middle:.1f})"'))
    return parts


def draw(folder: Path) -> str:
    facts = json.loads((folder / "device.json").read_text())
    bandwidth, peak = facts["read_gb_per_s"] / 1e3, facts["matrix_tflop_per_s"]  # TB/s, TFLOP/s
    ridge = peak / bandwidth
    parts = axes()
    roof = [(X_RANGE[0], X_RANGE[0] * bandwidth), (ridge, peak), (X_RANGE[1], peak)]
    points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in roof)
    parts.append(f'<polyline points="{points}" fill="none" stroke="#333" stroke-width="2"/>')
    parts.append(text(x_of(0.55), y_of(0.55 * bandwidth) - 12, f"measured read bandwidth, {bandwidth:.2f} TB/s",
                      "start", f'transform="rotate(-31 {x_of(0.55):.1f} {y_of(0.55 * bandwidth) - 12:.1f})"'))
    parts.append(text(WIDTH - RIGHT - 6, y_of(peak) - 8, f"measured bf16 peak, {peak:.0f} TFLOP/s", "end"))
    rows = winners(folder)
    for at, (family, (color, ops)) in enumerate(FAMILIES.items()):
        chosen = [r for r in rows if r["op"] in ops and r["dtype"] == "bf16"]
        for row in chosen:
            intensity = float(row["flops"]) / float(row["bytes"])
            tflops = float(row["flops"]) / float(row["time_us"]) * 1e-6
            if tflops < Y_RANGE[0]:  # launch latency, not the roofline, decides there
                continue
            x, y = x_of(intensity), y_of(tflops)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}" fill-opacity="0.55">'
                         f'<title>{row["problem"]}: {float(row["time_us"]):.2f} us, {row["variant"]}</title></circle>')
        y = HEIGHT - BOTTOM - 84 + 20 * at
        parts.append(f'<circle cx="{WIDTH - 245}" cy="{y - 4}" r="5" fill="{color}"/>')
        parts.append(text(WIDTH - 233, y, f"{family} ({len(chosen)} problems)", "start"))
    title = text(LEFT, 18, f'{facts["name"]}: the fastest configuration of each tuned problem, cold caches', "start",
                 'font-weight="bold"')
    body = "\n".join([title, *parts])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results of one device")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    given.output.write_text(draw(given.folder))


if __name__ == "__main__":
    main()
