"""Runs the program `warptune`: tuning, comparing and reporting from Python."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ._native import Error
from .results import read_csv


@dataclass(frozen=True)
class Tuned:
    """What a sweep left: its CSV, its wisdom, and what the program printed."""

    csv: Path
    wisdom: Path
    output: str

    def rows(self):
        """The rows as a pandas DataFrame."""
        return read_csv(self.csv)


@dataclass(frozen=True)
class Comparison:
    """`slower`: a row is slower. `judged`: at least half of the rows could be judged. `rows`: the program's JSON."""

    slower: bool
    judged: bool
    rows: object


def find_program(program=None):
    """`program`, else $WARPTUNE_PROGRAM, else `warptune` of the PATH."""
    wanted = program or os.environ.get("WARPTUNE_PROGRAM") or "warptune"
    found = shutil.which(str(wanted))
    if found is None:
        raise Error(f"the program '{wanted}' is not there: name it by program=.., $WARPTUNE_PROGRAM or the PATH")
    return found


def tune(config, *, device=None, out=None, filter=None, arguments=(), program=None):
    """Runs `warptune tune`. `config` is the path of a sweep, or its content as a dict with a `name`.

    `arguments` are passed on. The program's lines are returned; a problem without a correct configuration is an Error.
    """
    options = [f"--{name}={value}" for name, value in (("device", device), ("out", out), ("filter", filter)) if value]
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(config, dict):
            if not config.get("name"):
                raise Error("a sweep that is a dict needs a 'name', which its CSV gets")
            file = Path(folder) / "sweep.yaml"
            file.write_text(json.dumps(config))  # JSON is YAML
            config = file
        output = _run(["tune", str(config), *options, *arguments], program)
    paths = {key: re.search(rf"^{key}: +(.+)$", output, re.MULTILINE) for key in ("CSV", "wisdom")}
    if None in paths.values():
        raise Error(f"the program named no CSV and no wisdom; it printed: {output.strip()}")
    return Tuned(Path(paths["CSV"][1]), Path(paths["wisdom"][1]), output)


def compare(base, new, *, arguments=(), program=None):
    """Runs `warptune compare`: which rows of the CSV `new` are slower or faster than in `base`."""
    codes = {0: (False, True), 1: (True, True), 3: (False, False)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "compare.json"
        command = ["compare", str(base), str(new), "--format", "json", "-o", str(file), *arguments]
        code = _code(command, program, accepted=codes)[0]
        slower, judged = codes[code]
        return Comparison(slower, judged, json.loads(file.read_text()))


def report(results, out="report.html", *, title=None, program=None):
    """Runs `warptune report` on a CSV or folder, or a list of them; returns the path of the page."""
    results = [results] if isinstance(results, (str, os.PathLike)) else list(results)
    titles = ["--title", title] if title else []
    _run(["report", *map(str, results), "-o", str(out), *titles], program)
    return Path(out)


def _run(arguments, program):
    return _code(arguments, program, accepted=(0,))[1]


def _code(arguments, program, accepted):
    """Exit code and stdout; a code that is not accepted is an Error with the program's last line."""
    ended = subprocess.run([find_program(program), *arguments], capture_output=True, text=True, check=False)
    if ended.returncode not in accepted:
        lines = ended.stderr.strip().splitlines() or ended.stdout.strip().splitlines()
        raise Error(lines[-1] if lines else f"warptune {arguments[0]} ended with code {ended.returncode}")
    return ended.returncode, ended.stdout
