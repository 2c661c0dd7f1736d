"""Rows of schema 1 for peers, as `warptune tune` writes them."""
import csv
import datetime
import os
import socket
import subprocess
from pathlib import Path

import pynvml
import torch

SCHEMA = Path(__file__).parents[2] / "docs" / "csv-schema.md"


def sweep_columns() -> list[str]:
    """The first table of docs/csv-schema.md, which a test compares with the program's columns."""
    table = SCHEMA.read_text().split("| column | unit | meaning |\n|---|---|---|\n", 1)[1].split("\n\n", 1)[0]
    return [line.split("|")[1].strip() for line in table.splitlines()]


COLUMNS = sweep_columns()


def clocks() -> dict:
    return {"sm_clock_mhz": torch.cuda.clock_rate(), "temperature_c": torch.cuda.temperature(),
            "power_w": torch.cuda.power_draw() / 1000}


def driver() -> str:
    pynvml.nvmlInit()
    return pynvml.nvmlSystemGetDriverVersion()


def git_commit() -> str:
    try:
        return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=Path(__file__).parent,
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class RowWriter:
    """Appends rows; each is on the disk before write() returns. `config`: the versions used."""

    def __init__(self, path: Path, config: str):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists() or path.stat().st_size == 0
        self.file = path.open("a", newline="")
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="", extrasaction="raise", lineterminator="\n")
        if is_new:
            self.writer.writeheader()
        major, minor = torch.cuda.get_device_capability(0)
        self.constant = {
            "schema": 1, "run_id": f"peers-{now()}-{os.getpid()}", "git_commit": git_commit(),
            "host": socket.gethostname(), "device": torch.cuda.get_device_name(0),
            "arch": f"sm_{major}{minor}{'a' if major >= 9 else ''}", "driver": driver(),
            "toolkit": torch.version.cuda, "config": config, "cache": "cold",
        }

    def write(self, values: dict):
        row = {**self.constant, "timestamp_utc": now(), **clocks(), **values}
        self.writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items() if v is not None})
        self.file.flush()
        os.fsync(self.file.fileno())
