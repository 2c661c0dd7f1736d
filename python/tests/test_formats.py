"""What compare writes for other tools, as their own packages read it."""

import csv
import json
import re
import subprocess

import junitparser
import markdown_it
import pytest

COLUMNS = """schema run_id timestamp_utc git_commit host device arch driver toolkit op problem dtype variant config status detail
time_us time_us_min time_us_p10 time_us_p90 ci_low_us ci_high_us samples launches_per_sample cache bytes flops gb_per_s
tflop_per_s floor_us pct_floor max_abs_err rel_l2_err registers shared_bytes spill_bytes occupancy_pct sm_clock_mhz
mem_clock_mhz temperature_c power_w throttled compile_ms code_hash sampling""".split()
HOSTILE = "a<b>&\"'|`x]]>"  # a text of a CSV may be anything


def write(path, times):
    """Three runs of each row: its name and its time, or None where it fails."""
    with open(path, "w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, restval="")
        rows.writeheader()
        for run in range(3):
            for name, us in times.items():
                result = {"status": "ok", "time_us": us * (1 + run / 5000), "sampling": "rerun"} if us else {"status": "crash"}
                rows.writerow({"schema": 1, "run_id": f"r{run}", "device": "NVIDIA H200", "driver": "580", "op": "rms_norm",
                               "problem": f"rms_norm[tokens={name},dtype=bf16]", "variant": HOSTILE, "config": "vec=8",
                               "cache": "cold", **result})
    return path


@pytest.fixture(scope="module")
def formatted(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    base = write(folder / "base.csv", {1: 10, 2: 20, 3: 30, 4: 40})
    now = write(folder / "new.csv", {1: 10, 2: 30, 3: 20, 4: None, 5: 50})

    def text(format):
        ended = subprocess.run([program, "compare", base, now, "--format", format], capture_output=True, text=True, check=False)
        assert ended.returncode == 1, ended.stderr
        return ended.stdout

    return text


def test_junit(formatted):
    (suite,) = junitparser.JUnitXml.fromstring(formatted("junit").encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 1, 1)
    results = {re.search(r"tokens=(\d)", case.name)[1]: (case, case.result) for case in suite}
    assert all(HOSTILE in case.name for case, _ in results.values())
    assert isinstance(results["2"][1][0], junitparser.Failure)
    assert results["2"][1][0].message.startswith("SLOWER +50.00 %: 20.002 -> 30.003 us")
    assert isinstance(results["4"][1][0], junitparser.Error)
    assert isinstance(results["5"][1][0], junitparser.Skipped)
    assert not results["1"][1] and not results["3"][1]
    assert results["1"][0].time == pytest.approx(10e-6, rel=1e-3)


def test_markdown(formatted):
    tokens = markdown_it.MarkdownIt("commonmark").enable("table").parse(formatted("markdown"))
    rows = [token for token in tokens if token.type == "tr_open"]
    cells = [token for token in tokens if token.type == "td_open"]
    assert len(rows) == 1 + 5 and len(cells) == 5 * 7  # no text of the CSV opens a cell
    assert not any(child.type == "html_inline" for token in tokens for child in token.children or [])


def test_google_benchmark(formatted):
    benchmarks = json.loads(formatted("google-benchmark"))["benchmarks"]
    assert {"name", "run_name", "run_type", "iterations", "real_time", "cpu_time", "time_unit"} <= set(benchmarks[0])
    times = {entry["name"].split("/")[1]: entry for entry in benchmarks}
    assert times["tokens:2"]["real_time"] == pytest.approx(30, rel=1e-3)
    assert times["tokens:4"]["error_occurred"] and "error_occurred" not in times["tokens:1"]


def test_bencher(formatted):
    """https://bencher.dev/docs/reference/bencher-metric-format/: benchmark, measure, value with bounds."""
    metrics = json.loads(formatted("bencher"))
    assert len(metrics) == 4
    for measures in metrics.values():
        (latency,) = measures.values()
        assert set(latency) == {"value", "lower_value", "upper_value"}
        assert latency["lower_value"] <= latency["value"] <= latency["upper_value"]
    assert metrics[f"rms_norm/tokens:2/dtype:bf16/{HOSTILE}/vec:8"]["latency"]["value"] == pytest.approx(30000, rel=1e-3)
