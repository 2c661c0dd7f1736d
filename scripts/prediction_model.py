"""The model of predict_a100.py: what a row that was recorded on one GPU takes on another.

Per row, with the recorded time t (cold, CUDA graph) of the source; "in clocks" scales by the ratio of the SM clocks:
  body      t less the cost of a graph node
  memory    bytes / read bandwidth of the target, plus what the body lost beyond its roofline floor, in clocks
  compute   flops / (peak of the target * the share of its own peak that the source reached), times the change of waves
  launch    cost of a graph node, plus what dependent launch hid where the target has none, in clocks
  time      launch + max(memory, compute)
"""
import csv
import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sweep_rows import parse_problem, read_rows

# All sources are Hopper GPUs: the clock of their rows, and the shared memory of an SM.
HOPPER_CLOCK_MHZ, HOPPER_SHARED_PER_SM = 1980, 228 << 10
# mma.sync reaches about 63 % of the wgmma rate on Hopper (arXiv:2402.13499); on the A100 it is the only path.
HOPPER_MMA_SHARE = 0.63
MMA_SYNC = {"mma", "flash_mma", "mem_efficient", "mma_direct"}
MATRIX_OPS = {"linear", "attention_decode", "attention_prefill"}
# Parameters that are newer than some recorded rows, with the value of the kernel before they existed.
NEWER_PARAMETERS = {"flash_mma": {"shared_layout": "xor"}, "mem_efficient": {"stages": "1", "math": "cuda_cores"}}
PDL_HIDES_US = 0.52  # rms_norm of one row, with and without programmatic dependent launch (results/h200/wisdom.json)
REGISTERS_PER_SM, THREADS_PER_SM = 65536, 2048


@dataclass
class Target:
    """A GPU to predict. Rates in GB/s and TFLOP/s, sizes in bytes."""
    clock_mhz: int
    sms: int
    shared_per_sm: int
    read_gb_per_s: float
    matrix_tflop_per_s: float
    vector_tflop_per_s: float
    mma_share: float  # of the matrix rate, what mma.sync reaches
    pdl: bool

    @property
    def clocks(self):
        return HOPPER_CLOCK_MHZ / self.clock_mhz


# The A100: data sheet, and what A100s read at best. The H100: the peaks of the floors in the rows of results/h100.
A100 = {card: Target(1410, 108, 164 << 10, read, 312, 19.5, 1, False)
        for card, read in {"40gb": 1500, "80gb": 1800}.items()}
H100 = Target(1980, 132, 228 << 10, 3151, 938, 63, HOPPER_MMA_SHARE, True)


class Source:
    """A folder of results of a Hopper GPU. A rehearsal of sm_80 there has the matrix rate of mma.sync."""

    def __init__(self, folder):
        facts = json.loads((folder / "device.json").read_text())
        self.folder, self.name, self.sms = folder, facts["name"].removeprefix("NVIDIA "), facts["sms"]
        self.read_gb_per_s, self.matrix_tflop_per_s = facts["read_gb_per_s"], facts["matrix_tflop_per_s"]
        self.vector_tflop_per_s = facts["vector_tflop_per_s"]
        self.rehearsal = facts["arch"] == "sm_80"
        self.mma_share = 1 if self.rehearsal else HOPPER_MMA_SHARE
        self.node_us, self.node_pdl_us = (facts["calibration"][name] for name in ("graph_node_us", "graph_node_pdl_us"))

    def node(self, pdl):
        return self.node_pdl_us if pdl else self.node_us


@dataclass
class Row:
    us: float
    variant: str
    config: dict
    registers: int = 0  # with shared_bytes; 0 where they are not recorded
    shared_bytes: int = 0

    def __post_init__(self):
        self.pdl = self.config.get("pdl") == "1"


class Times:
    """The recorded times of one problem."""

    def __init__(self, byte_count, flops):
        self.bytes, self.flops, self.rows = byte_count, flops, []


def key_of(winner):
    def text_of(value):
        return value[1] if isinstance(value, list) else str(value)
    dims = ",".join(f"{name}={text_of(value)}" for name, value in winner["dims"].items())
    return f"{winner['op']}[{dims},dtype={winner['dtype']}]"


def config_of(text):
    """block=64,combine=ll -> {'block': '64', 'combine': 'll'}"""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def config_text(config):
    return ",".join(f"{name}={value}" for name, value in config.items())


def op_of(key):
    return parse_problem(key)[0]


def recorded_rows(paths):
    """(problem, bytes, flops, Row) of the cold rows of CSVs of sweeps."""
    for path in paths:
        if path.stem.endswith("_peers"):  # other people's kernels
            continue
        for row in read_rows(path):
            if (row.get("status") == "ok" and "shared_bytes" in row and row["op"] not in ("launch", "step")
                    and row["cache"] == "cold"):
                yield row["problem"], float(row["bytes"]), float(row["flops"]), Row(
                    float(row["time_us"]), row["variant"], config_of(row["config"]),
                    int(row["registers"] or 0), int(row["shared_bytes"] or 0))


def recorded(folder, others=()):
    """Times by problem key: from the CSVs, and from the wisdom those of the same problems and of `others`, a dict of
    Times. The wisdom has numbers for the labels of its other rows, and labels in the configurations of its winners."""
    problems = {key: Times(times.bytes, times.flops) for key, times in dict(others).items()}
    for key, byte_count, flops, row in recorded_rows(sorted(folder.glob("*.csv"))):
        problems.setdefault(key, Times(byte_count, flops)).rows.append(row)
    winners = json.loads((folder / "wisdom.json").read_text())["winners"]
    labels = {(winner["variant"], name, str(value[0])): value[1]
              for winner in winners for name, value in winner["config"].items() if isinstance(value, list)}
    for winner in winners:
        times = problems.get(key_of(winner))
        if not times or winner.get("cache", "cold") != "cold":
            continue
        for variant, kept in winner.get("times", {}).items():
            names = kept["parameters"].split()
            for row in kept["rows"]:
                *values, us = row.split()
                config = {name: labels.get((variant, name, value), value) for name, value in zip(names, values)}
                times.rows.append(Row(float(us), variant, config))
    return problems


def on_a100(variant, config, source_sms):
    """The configuration without dependent launch, and a persistent grid with as many blocks per SM."""
    config = config | NEWER_PARAMETERS.get(variant, {}) | config
    if "pdl" in config:
        config["pdl"] = "0"
    per_sm, rest = divmod(int(config.get("grid_blocks", 0)), source_sms)
    if per_sm and not rest:
        config["grid_blocks"] = str(per_sm * A100["80gb"].sms)
    return config


def refusals(program, configurations):
    """{(problem, variant, config text): reason} for what the constraints of the program exclude on sm_80."""
    configurations = list(dict.fromkeys(configurations))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with open(path, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("problem", "variant", "config"), *configurations])
        try:
            command = [program, "inspect", "--rows", path, "--arch", "sm_80"]
            ended = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            sys.exit(f"predict_a100: '{program}', which knows what sm_80 accepts, does not run: {error.strerror}")
    if ended.returncode not in (0, 1):
        sys.exit(f"predict_a100: '{program} inspect --rows' failed: {ended.stderr.strip()}")
    lines = re.findall(rf"^{re.escape(str(path))}:(\d+): (.*)$", ended.stdout, re.MULTILINE)
    return {configurations[int(line) - 2]: reason for line, reason in lines}


def rows_for_a100(source, program):
    """Times by problem key of the rows that an A100 accepts, their configurations as it runs them.
    Libraries choose their kernel for the device. Published times bear out what the rows of cuBLASLt predict; cuDNN has
    another attention kernel for Hopper, and in a rehearsal both are peers that run Hopper kernels."""
    problems = recorded(source.folder)
    left_out = {"naive", "cudnn"} | ({"cublaslt"} if source.rehearsal else set())
    for times in problems.values():
        times.rows = [row for row in times.rows if row.variant not in left_out]
        for row in times.rows:
            row.config = on_a100(row.variant, row.config, source.sms)

    def identity(key, row):
        return key, row.variant, config_text(row.config)
    kernels = [identity(key, row) for key, times in problems.items() for row in times.rows if row.variant != "cublaslt"]
    refused = refusals(program, kernels)
    for key, times in problems.items():
        times.rows = [row for row in times.rows if identity(key, row) not in refused]
    return {key: times for key, times in problems.items() if times.rows}


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


def resident(row, shared_per_sm):
    """Blocks per SM; 1 where the resources are not recorded."""
    threads = int(row.config.get("block", 32 * int(row.config.get("warps", 8))))
    if not row.registers:
        return 1
    limits = [THREADS_PER_SM // threads, REGISTERS_PER_SM // (row.registers * threads)]
    limits.append(shared_per_sm // (row.shared_bytes + 1024))
    return max(1, min(limits))


def predict(key, times, row, source, target):
    """(us on the target, its floor, what bounds it)."""
    op, matrix = op_of(key), op_of(key) in MATRIX_OPS
    rate, target_rate = ((source.matrix_tflop_per_s, target.matrix_tflop_per_s) if matrix else
                         (source.vector_tflop_per_s, target.vector_tflop_per_s))
    if row.variant in MMA_SYNC:
        rate, target_rate = rate * source.mma_share, target_rate * target.mma_share
    body = max(row.us - source.node(row.pdl), 0.01)
    source_memory, source_compute = times.bytes / source.read_gb_per_s * 1e-3, times.flops / rate * 1e-6
    memory, compute = times.bytes / target.read_gb_per_s * 1e-3, times.flops / target_rate * 1e-6
    floor = max(memory, compute)
    if source_compute > source_memory:
        compute /= min(source_compute / body, 1)
        if blocks := blocks_of(*parse_problem(key), row.config):
            compute *= (waves(blocks, target.sms, resident(row, target.shared_per_sm)) /
                        waves(blocks, source.sms, resident(row, HOPPER_SHARED_PER_SM)))
    else:
        memory += max(body - source_memory, 0) * target.clocks
    bound = "compute" if compute > memory else "memory" if memory < 2 * floor else "latency"
    node = source.node(row.pdl) if target.pdl else source.node_us + (PDL_HIDES_US if row.pdl else 0)
    return node * target.clocks + max(memory, compute), floor, bound
