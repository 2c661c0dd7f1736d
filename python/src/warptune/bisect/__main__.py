"""Finds the first commit of a range whose program is slower at one row: docs/regression.md.

Each commit is built once, in a worktree of its own, and timed interleaved with the good one: `rerun --runs k` of the
one, then of the other. What is known is in WORK/state.json, so that a killed search goes on. Exit code 0: a commit is
named. 1: the row did not change. 2: an error. 3: the commits that are left do not build.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BUILD = """cmake --preset release -B "$BUILD" && cmake --build "$BUILD" --target warptune &&
cp "$BUILD/warptune" "$PROGRAM\""""
FACTS = {"driver": "driver", "toolkit": "toolkit", "card": "card", "host": "machine", "sm_clock_mhz": "SM clock"}


class Failure(Exception):
    """One sentence for the user."""


def git(repo, *arguments):
    ended = subprocess.run(["git", "-C", repo, *arguments], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise Failure(f"git {arguments[0]}: {(ended.stderr.strip().splitlines() or ['failed'])[-1]}")
    return ended.stdout.strip()


def commits_between(repo, good, bad):
    """The commits from the good to the bad one, both included: along first parents, one change of the branch each."""
    first, last = (git(repo, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}") for name in (good, bad))
    between = git(repo, "rev-list", "--first-parent", "--reverse", f"{first}..{last}").split()
    if not between or git(repo, "rev-parse", f"{between[0]}^") != first:
        raise Failure(f"{good} is no earlier commit of the branch of {bad} (along first parents)")
    return [first, *between]


class Search:
    def __init__(self, given, commits):
        self.given, self.commits, self.work = given, commits, Path(given.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.tree, self.file = self.work / "tree", self.work / "state.json"
        question = {"good": commits[0], "bad": commits[-1], "row": given.row, "runs": given.runs, "build": given.build}
        self.state = {**question, "built": {}, "effects": {}}
        if self.file.exists():
            self.state = json.loads(self.file.read_text())
        if {key: self.state.get(key) for key in question} != question:
            raise Failure(f"'{self.work}' has another search; name another --work, or delete it")

    def remember(self, kind, commit, value):
        self.state[kind][commit] = value
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps(self.state, indent=1))
        partial.replace(self.file)
        return value

    def name(self, commit):
        return git(self.given.repo, "log", "-1", "--format=%h %s", commit)

    def program(self, commit):
        """The program of a commit, or None where it does not build."""
        program = self.work / "programs" / commit
        if commit not in self.state["built"]:
            print(f"builds {self.name(commit)}", flush=True)
            if not self.tree.exists():
                git(self.given.repo, "worktree", "prune")
                git(self.given.repo, "worktree", "add", "--detach", str(self.tree), commit)
            git(self.tree, "checkout", "--force", "--detach", commit)
            git(self.tree, "clean", "-ffdxq")
            program.parent.mkdir(exist_ok=True)
            variables = {**os.environ, "BUILD": str(self.work / "build"), "PROGRAM": str(program), "COMMIT": commit}
            with open(self.work / f"build-{commit[:12]}.log", "w") as log:
                ended = subprocess.run(
                    self.given.build, shell=True, cwd=self.tree, env=variables, stdout=log, stderr=log, check=False
                )
            built = ended.returncode == 0 and os.access(program, os.X_OK)
            self.remember("built", commit, built)
            if not built:
                print(f"  does not build: {log.name}", flush=True)
        return program if self.state["built"][commit] else None

    def rerun(self, program, folder, run):
        command = [program, "rerun", self.given.wisdom, "--problem", f"^{re.escape(self.given.row)}$",
                   "--runs", str(run), "--name", "bisect", "--device", self.given.device, "--out", folder]
        with open(self.work / "rerun.log", "a") as log:
            subprocess.run([str(word) for word in command], stdout=log, stderr=log, check=False)
        return next(folder.glob("*/bisect.csv"), None)

    def effect(self, commit):
        """By which fraction the program of a commit is slower than the good one; None where it cannot be timed."""
        if commit in self.state["effects"]:
            return self.state["effects"][commit]
        program = self.program(commit)
        if program is None:
            return None
        folder = self.work / "rows" / commit
        shutil.rmtree(folder, ignore_errors=True)
        for run in range(1, self.given.runs + 1):
            base = self.rerun(self.program(self.commits[0]), folder / "good", run)
            now = self.rerun(program, folder / "new", run)
        if base is None:
            raise Failure(f"the good program has no time for '{self.given.row}': {self.work / 'rerun.log'}")
        row = self.compare(base, now) if now else None
        if row is None or row["effect"] is None:
            print(f"  {self.name(commit)}: cannot be timed: {self.work / 'rerun.log'}", flush=True)
            return self.remember("effects", commit, None)
        print(f"  {self.name(commit)}: {100 * row['effect']:+.2f} % ({row['verdict']})", flush=True)
        if commit == self.commits[-1]:
            self.remember("effects", "verdict", row["verdict"])
        return self.remember("effects", commit, row["effect"])

    def compare(self, base, now):
        command = [self.given.program, "compare", base, now, "--interleaved", "--format", "json",
                   "--min-effect", self.given.min_effect]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            rows = json.loads(ended.stdout)["rows"]
        except ValueError:
            raise Failure((ended.stderr.strip().splitlines() or ["compare failed"])[-1]) from None
        return next((row for row in rows if row["problem"] == self.given.row), None)

    def run(self):
        whole = self.effect(self.commits[-1])
        if whole is None:
            raise Failure("the bad commit does not build, or has no time for the row")
        if self.state["effects"]["verdict"] != "SLOWER":
            print(f"'{self.given.row}' did not change: {100 * whole:+.2f} % from {self.name(self.commits[0])} to "
                  f"{self.name(self.commits[-1])}, both timed here")
            print(self.other_causes())
            return 1
        low, high, skipped = 0, len(self.commits) - 1, set()
        while candidates := [i for i in range(low + 1, high) if i not in skipped]:
            middle = min(candidates, key=lambda i: abs(2 * i - low - high))
            effect = self.effect(self.commits[middle])
            if effect is None:
                skipped.add(middle)
            elif effect >= whole / 2:  # most of the slowdown is there
                high = middle
            else:
                low = middle
        if high - low > 1:
            print("the first slow commit is one of these; those before the last do not build or have no time:")
            print("\n".join(f"  {self.name(commit)}" for commit in self.commits[low + 1 : high + 1]))
            return 3
        effect = self.state["effects"][self.commits[high]]
        print(f"'{self.given.row}' is {100 * effect:+.2f} % since\n  {self.name(self.commits[high])}")
        return 0

    def other_causes(self):
        """What differs between the recordings of the two commits in the history."""
        if not self.given.history:
            return "driver, card or clocks of the recordings differ, not the programs; --history DIR says which"
        facts = [self.recorded(commit) for commit in (self.commits[0], self.commits[-1])]
        if not all(facts):
            return f"'{self.given.history}' has no recording of this row for both commits"
        changed = [f"{name}: {facts[0][column]} -> {facts[1][column]}" for column, name in FACTS.items()
                   if facts[0].get(column) != facts[1].get(column)]
        return "what differs in the history: " + ("; ".join(changed) or "nothing that is recorded")

    def recorded(self, commit):
        for path in sorted(Path(self.given.history).glob("*.csv"), reverse=True):
            named = path.name.split("_")
            if len(named) != 4 or len(named[1]) < 7 or not commit.startswith(named[1].split("-")[0]):
                continue
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    if row["problem"] == self.given.row and row["status"] == "ok":
                        return row
        return None


def main():
    parser = argparse.ArgumentParser(prog="warptune bisect")
    for option in "good bad row wisdom repo work device min-effect history build program".split():
        parser.add_argument(f"--{option}", default="")
    parser.add_argument("--runs", type=int)
    given = parser.parse_args()
    given.build = given.build or BUILD
    given.wisdom = Path(given.wisdom).resolve()
    search = Search(given, commits_between(given.repo, given.good, given.bad))
    code = search.run()
    if search.tree.exists():
        git(given.repo, "worktree", "remove", "--force", str(search.tree))
    return code


try:
    sys.exit(main())
except Failure as failure:
    print(f"warptune: {failure}", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    sys.exit(130)
