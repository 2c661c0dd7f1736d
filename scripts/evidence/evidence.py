"""Shared code of aa_study.py and ncu_agreement.py: arguments, running the program, small CSVs, a verdict."""

import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("WARPTUNE", str(ROOT / "build" / "warptune"))
WISDOM = ROOT / "results" / "h200" / "wisdom.json"


def parser(doc):
    """A parser with --program, --out, --device and --wisdom."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--program", default=PROGRAM, help="warptune (%(default)s; $WARPTUNE)")
    made.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "evidence", help="folder of the CSV")
    made.add_argument("--device", default="auto")
    made.add_argument("--wisdom", type=pathlib.Path, default=WISDOM, help="the winners")
    return made


def stop(sentence):
    """Ends with exit code 2: the evidence could not be gathered."""
    print(f"evidence: {sentence}", file=sys.stderr)
    sys.exit(2)


def run(command, accept=(0,)):
    """The stdout of a command; ends the script with its last lines if its exit code is not accepted."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        stop(f"{command[0]} cannot be started: {error.strerror}")
    if done.returncode not in accept:
        said = (done.stdout + done.stderr).strip().splitlines()[-5:]
        stop(f"{' '.join(command)} ended with {done.returncode}: " + " | ".join(said))
    return done.stdout


def rerun(program, wisdom, problems, name, folder, device):
    """Times the winners of these problems (a regular expression) again; the path of the CSV."""
    # Exit code 1: a winner is no longer correct. Its row says so; the other rows are valid.
    run([program, "rerun", wisdom, "--problem", problems, "--name", name, "--out", folder, "--device", device], (0, 1))
    found = list(folder.glob(f"*/{name}.csv"))
    if not found:
        stop(f"rerun of {problems} wrote no {name}.csv")
    return found[0]


def compare(program, base, now, *options):
    """The output of `warptune compare` for two CSVs."""
    return json.loads(run([program, "compare", base, now, "--format", "json", *options], (0, 1, 2, 3)))


def write_csv(path, rows):
    """Rows are dictionaries with one set of keys; fractions are rounded to six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def winners(wisdom, problems):
    """Winners of a wisdom file by the regular expressions over "op dims" that they match, in that order."""
    entries = json.loads(pathlib.Path(wisdom).read_text())["winners"]
    chosen = []
    for pattern in problems:
        found = [entry for entry in entries if re.search(pattern, f"{entry['op']} {pairs(entry['dims'])}")]
        if found:
            chosen.append(found[0])
        else:
            print(f"evidence: no winner matches '{pattern}'", file=sys.stderr)
    return chosen


def pairs(values):
    """Dims or a configuration of the wisdom as "tokens=1,cache_hint=none"."""
    return ",".join(f"{k}={v[1] if isinstance(v, list) else v}" for k, v in values.items())


def problem_key(entry):
    return f"{entry['op']}[{pairs(entry['dims'])},dtype={entry['dtype']}]"


def benchmark_prefix(entry):
    """What the name of a winner's Google Benchmark begins with: "linear/tokens:1/in:4096/out:4096/dtype:bf16/"."""
    dims = pairs(entry["dims"]).replace("=", ":").replace(",", "/")
    return f"{entry['op']}/{dims}/dtype:{entry['dtype']}/"


def verdict(name, good, sentence):
    """Prints one line and returns the exit code: 0 if the bar is met, else 1."""
    print(f"{name}: {'met' if good else 'NOT MET'}: {sentence}")
    sys.exit(0 if good else 1)
