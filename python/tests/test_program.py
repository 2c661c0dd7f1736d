"""Tuning, comparing and reporting through the program, on the host device."""

import pytest

import warptune

SWEEP = {
    "name": "tiny",
    "dtypes": "fp32",
    "cache": "hot",
    "sampling": {"max_time": 0.001, "min_samples": 6},
    "finalists": 1,
    "ops": [{"op": "rms_norm", "problems": [{"tokens": [1, 2], "hidden": 64}], "variants": ["host_naive"]}],
}


@pytest.fixture(scope="module")
def tuned(program, tmp_path_factory):
    return warptune.tune(SWEEP, device="host", out=tmp_path_factory.mktemp("out"), program=program)


def test_a_sweep_is_tuned(tuned):
    rows = tuned.rows()
    assert tuned.csv.name == "tiny.csv" and tuned.wisdom.exists()
    assert rows["dim.tokens"].tolist() == [1, 2] and (rows["status"] == "ok").all()
    assert (rows["time_us"] > 0).all()


def test_a_csv_is_not_slower_than_itself(tuned, program):
    comparison = warptune.compare(tuned.csv, tuned.csv, program=program)
    assert not comparison.slower
    assert comparison.rows


def test_a_report_is_one_page(tuned, program, tmp_path):
    page = warptune.report(tuned.csv, tmp_path / "page.html", title="Tiny", program=program)
    assert "<title>Tiny" in page.read_text()


def test_mistakes_are_the_programs_sentence(program, tmp_path):
    with pytest.raises(warptune.Error, match="none.yaml"):
        warptune.tune(tmp_path / "none.yaml", program=program)
    with pytest.raises(warptune.Error, match="none.csv"):
        warptune.compare(tmp_path / "none.csv", tmp_path / "none.csv", program=program)
    with pytest.raises(warptune.Error, match="needs a 'name'"):
        warptune.tune({"ops": []}, program=program)


def test_a_program_that_is_not_there_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.delenv("WARPTUNE_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        warptune.Error, match=r"the program 'warptune' is not there: name it by program=\.\., \$WARPTUNE_PROGRAM"
    ):
        warptune.report(tmp_path)
