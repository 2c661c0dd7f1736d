#!/usr/bin/env python3
"""Runs the tests of a module on a sample of its mutants. scripts/mutants.sh prepares FOLDER and calls it.

A mutant counts if it compiles to other optimized machine code than the original. It is found if a test fails, or takes
ten times as long. The sample is the same in each run with the same seed.
"""
import argparse
import hashlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from pathlib import Path


def tests_of_op(folder):
    """The tests of an op that need no GPU and compile no kernel: for rms_norm *RmsNorm* and those of several ops."""
    name = "".join(word.capitalize() for word in folder.split("_"))
    name = {"AttentionDecode": "Decode", "AttentionPrefill": "Prefill"}.get(name, name)
    more = {"padding_offset": ":UnevenLengths.*", "rope_append": ":RopeTables.*", "top_k": ":Philox.*"}.get(folder, "")
    return {"ops_test": f"*{name}*:Costs.*:Tensors.*{more}:-*Gpu*:*Compile*:*EveryParameter*:*Space*"}


# Module: per source the test programs with filters that cover it.
MODULES = {
    "statistics": {f"harness/measure/{name}.cpp": {"measure_test": "Statistics.*:Sampler.*:Interleave.*:SteadyBench.*"}
                   for name in ("statistics", "sampler", "interleave")},
    "compare": {f"harness/results/{name}.cpp":
                {"results_test": "MannWhitney.*:Holm.*:Samples.*:StudentT.*:Compare.*:CompareReport.*",
                 "tune_test": "Confirm.*"}
                for name in ("mann_whitney", "student_t", "compare", "compare_report", "timed_config")},
    "csv": {"harness/results/csv.cpp": {"results_test": "Csv.*:SweepRow.*:SweepColumns.*:Compare.*"}},
    "safetensors": {"harness/llama/safetensors.cpp": {"llama_test": "Safetensors.*:Weights.*"}},
    "wisdom": {f"harness/results/{name}.cpp":
               {"results_test": "Wisdom*:Replacement.*:Staleness.*:SweepFile.*", "select_test": "WinnerLookup.*"}
               for name in ("wisdom", "wisdom_json", "staleness")},
    # Without the tests that take seconds.
    "sharing": {**{f"harness/results/{name}.cpp":
                   {"results_test": "WisdomMerging.*:TooFast.*:Store.*:SearchPath.*:Replacement.*:Sha256.*:"
                                    "-Store.WritersAtOnce*:Store.AKilledWriter*"}
                   for name in ("wisdom_merge", "wisdom_store", "wisdom_path", "wisdom_file", "source_hash")},
                "harness/measure/impossible.cpp": {"results_test": "TooFast.*",
                                                   "measure_test": "Peaks.*"}},
    # Without the test that takes a minute.
    "resume": {**{f"harness/results/{name}.cpp": {"results_test": "Journal*:RowStore*:Merge.*:SweepFile.*",
                                                  "tune_test": "Resume.*:LaunchRows.*:Shard.*:-Resume.TwentyKills*"}
                  for name in ("journal", "row_store")},
               "harness/results/merge.cpp": {"results_test": "Merge.*", "tune_test": "Shard.*"}},
    "space": {"harness/core/space.cpp": {"core_test": "Space.*:ParseConfig.*:OpEntry.*:Assignment.*"}},
    "expression": {f"harness/core/{name}.cpp": {"core_test": "Expression*:Space.*"}
                   for name in ("expression", "expression_parser")},
    "custom": {f"harness/custom/{name}.cpp":
               {"custom_test": "OwnOp.*:OwnKernel.*:DefinedOp.*:KernelDefinition.*:CudaReference.*"}
               for name in ("defined_op", "op_definition", "formula", "kernel_arguments", "kernel_item",
                            "kernel_reader")},
    "select": {f"harness/select/{name}.cpp":
               {"select_test": "Override.*:Recorded.*:Chosen.*:LikelyConfigs.*:Default.*:WinnerLookup.*"}
               for name in ("plan_chooser", "tuned_plans", "winner_lookup")},
    "export": {f"harness/export/{name}.cpp": {"export_test": "*"}
               for name in ("args_layout", "argument_list", "export_choice", "export_files", "export_json", "launch_model",
                            "plan_table")},
    "sampling": {"harness/llama/sampling.cpp": {"llama_test": "Sampling.Has*:Sampling.Reads*:Sampling.Takes*:Sampling.Text*:"
                                                              "Sampling.TheSuffix*:Sampling.No*"}},
    "quantized": {f"harness/llama/{name}.cpp":
                  {"llama_test": "QuantizationConfig.*:Quantize.*:QuantizedMatrix.*:QuantizedWeights.*:WeightFormat.*:"
                                 "Formats/QuantizedFormat.*"}
                  for name in ("pack_weights", "quantization_config", "quantize", "quantized_matrix",
                               "quantized_tensors", "weight_format")},
    "rope": {"harness/core/rope.cpp": {"llama_test": "Rope.*"}},
    "references": {str(path): tests_of_op(path.parent.name) for path in sorted(Path("variants").glob("*/op.cpp"))},
}
RUN_THE_PROGRAM = {"resume"}  # their tests start it
LEAST_SCORE = 0.9


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Build:
    """A build of the copy without optimization, so that a mutant costs seconds."""

    def __init__(self, folder):
        self.tree, self.folder = (folder / "tree").resolve(), (folder / "build").resolve()
        flags = os.environ.get("CXXFLAGS", "-O0 -DNDEBUG")
        subprocess.run(["cmake", "-S", self.tree, "-B", self.folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                        "-DWARPTUNE_UNITY=OFF", "-DCMAKE_CXX_FLAGS=" + flags], check=True, stdout=subprocess.DEVNULL)
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compile_commands = {c["file"]: c["command"] for c in commands}

    def make(self, *targets):
        return subprocess.run(["ninja", "-C", self.folder, *targets], capture_output=True).returncode == 0

    def run(self, command):
        return subprocess.run(command, shell=True, cwd=self.folder, capture_output=True).returncode == 0

    def object_of(self, source):
        return re.search(r" -o (\S+)", self.compile_commands[str(self.tree / source)])[1]

    def compile(self, source):
        return self.run(self.compile_commands[str(self.tree / source)])

    def optimized(self, source):
        """The code of a source under -O2. Equal code is an equal program: `x < 3` for `x <= 2`."""
        output = self.folder / "optimized.o"
        command = self.compile_commands[str(self.tree / source)] + " -O2 -g0"
        if not self.run(re.sub(r" -o \S+", f" -o {output}", command)):
            sys.exit(f"mutants: {source} does not compile with -O2")
        return hashlib.sha256(output.read_bytes()).digest()

    def link(self, source, programs):
        """Links only what the tests need: Ninja would build all that depends on the source."""
        library = re.match(r"CMakeFiles/(\w+)\.dir/", self.object_of(source))[1]
        for target in [f"lib{library}.a", *programs]:
            steps = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], capture_output=True,
                                   text=True, check=True).stdout.splitlines()
            if not self.run(steps[-1].split(" && cd ")[0]):  # without the discovery of the tests
                return False
        return True

    def expect_tests(self, tests):
        """Ends the program where a word of a filter names no test: mutants would survive it."""
        for program, words in tests.items():
            for word in words.split(":-")[0].split(":"):
                listed = subprocess.run([self.folder / "tests" / program, "--gtest_list_tests", "--gtest_filter=" + word],
                                        capture_output=True, text=True, check=True).stdout
                if not re.search(r"^  \S", listed, re.MULTILINE):
                    sys.exit(f"mutants: {program} has no test {word}")

    def test(self, tests, seconds):
        """Whether all tests pass in time."""
        for program, words in tests.items():
            command = [self.folder / "tests" / program, "--gtest_filter=" + words, "--gtest_brief=1",
                       "--gtest_fail_fast"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       preexec_fn=limited, start_new_session=True)
            try:
                if process.wait(seconds) != 0:
                    return False
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                return False
        return True


def mutants_of(folder, source):
    """The files of all mutants of a source in the order of their numbers."""
    where = folder / "mutants" / source.replace("/", "_")
    where.mkdir(parents=True, exist_ok=True)
    for old in where.iterdir():
        old.unlink()
    subprocess.run([folder / "venv/bin/mutate", folder / "tree" / source, "cpp", "--noCheck", "--mutantDir", where],
                   check=True, stdout=subprocess.DEVNULL)
    return sorted(where.iterdir(), key=lambda p: int(p.name.split(".")[-2]))


def change(original, mutant):
    """The first line that differs."""
    old, new = original.splitlines(), mutant.splitlines()
    for number, (a, b) in enumerate(zip(old, new), 1):
        if a != b:
            return f"{number}: {a.strip()}  ->  {b.strip()}"
    return "the end"


def run_file(build, folder, source, tests, given, uses_program):
    """The numbers of mutants that are found and of those tried, and the survivors."""
    path = build.tree / source
    original = path.read_text()
    if not build.make(*tests):
        sys.exit(f"mutants: {source} or its tests do not compile unchanged")
    build.expect_tests(tests)
    start = time.monotonic()
    if not build.test(tests, 3600):
        sys.exit(f"mutants: the tests of {source} fail without a mutant: {tests}")
    limit = 10 * (time.monotonic() - start) + 10
    code = build.optimized(source)
    mutants = list(dict.fromkeys(mutant.read_text() for mutant in mutants_of(folder, source)))
    random.Random(f"{given.seed} {source}").shuffle(mutants)
    found = tried = 0
    survivors = []
    try:
        for text in mutants:
            if tried == given.per_file:
                break
            path.write_text(text)
            if not build.compile(source):
                continue
            programs = ["warptune"] * uses_program + [f"tests/{name}" for name in tests]
            if not build.link(source, programs) or not build.test(tests, limit):
                found += 1
            elif build.optimized(source) == code:
                continue
            else:
                survivors.append(f"{source}:{change(original, text)}")
                print("  survives " + survivors[-1], flush=True)
            tried += 1
    finally:
        path.write_text(original)
    return found, tried, survivors


def check_sources():
    """Every source of MODULES exists."""
    missing = [source for sources in MODULES.values() for source in sources if not Path(source).exists()]
    if missing:
        sys.exit(f"mutants: MODULES names sources that do not exist: {', '.join(missing)}")


def main():
    if sys.argv[1:] == ["--check"]:
        return check_sources()
    parser = argparse.ArgumentParser(description=__doc__, prog="mutants.sh")
    parser.add_argument("folder", type=lambda p: Path(p).resolve())
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    parser.add_argument("--per-file", type=int, default=20, help="mutants of a file that compile (20)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_intermixed_args()
    for name in given.modules:
        if name not in MODULES:
            parser.error(f"unknown module '{name}'; the modules are {', '.join(MODULES)}")
    build = Build(given.folder)
    good = True
    for name in given.modules or MODULES:
        found = tried = 0
        for source, tests in MODULES[name].items():
            one = run_file(build, given.folder, source, tests, given, name in RUN_THE_PROGRAM)
            found, tried = found + one[0], tried + one[1]
            print(f"  {source}: {one[0]} of {one[1]}", flush=True)
        score = found / max(tried, 1)
        good = good and score >= LEAST_SCORE
        print(f"{name}: {found} of {tried} mutants found, {100 * score:.0f} %", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
