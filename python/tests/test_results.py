"""The CSV of a sweep as a DataFrame."""

import pandas
import pytest

import warptune

HEADER = "schema,timestamp_utc,device,arch,driver,toolkit,op,problem,dtype,variant,config,status,time_us,cache,step\n"


def row(config, time, problem="linear[tokens=1,in=64,out=32,bias=no,dtype=fp32]", status="ok", variant="v"):
    return f'1,2026-11-20T10:00:00Z,host,x86,,,linear,"{problem}",fp32,{variant},"{config}",{status},{time},cold,\n'


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "sweep.csv"
        path.write_text(text)
        return path

    return write


def test_dims_and_parameters_are_columns(file):
    rows = warptune.read_csv(file(HEADER + row("block=64,hint=none", 2.5) + row("block=128", 1.5)))
    assert rows["dim.tokens"].tolist() == [1, 1] and rows["dim.bias"].tolist() == ["no", "no"]
    assert "dim.dtype" not in rows
    assert rows["config.block"].tolist() == [64, 128]
    assert rows["config.hint"][0] == "none" and pandas.isna(rows["config.hint"][1])
    assert rows["time_us"].min() == 1.5
    assert rows["timestamp_utc"][0].year == 2026
    assert rows["driver"][0] == ""


def test_the_last_row_of_a_key_counts(file):
    path = file(HEADER + row("block=64", 2.5) + row("block=128", 4) + row("block=64", 3.5))
    assert warptune.read_csv(path)["time_us"].tolist() == [4, 3.5]
    assert warptune.read_csv(path, all_rows=True)["time_us"].tolist() == [2.5, 4, 3.5]


def test_a_row_without_a_time_has_none(file):
    rows = warptune.read_csv(file(HEADER + row("block=64", "", status="crash") + row("", 1)))
    assert pandas.isna(rows["time_us"][0]) and rows["status"].tolist() == ["crash", "ok"]


def test_what_a_kill_left_is_no_row(file):
    rows = warptune.read_csv(file(HEADER + row("block=64", 2.5) + row("block=128", 1.5)[:60]))
    assert len(rows) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "is no CSV of a sweep: its first column must be 'schema'"),
        ("schema,problem\n1,x\n", "lacks the columns variant, config, cache, time_us"),
        (HEADER + row("", 1).replace("1,", "2,", 1), "has rows of another schema than 1"),
        (HEADER + row("", "fast"), "column 'time_us': Unable to parse string"),
    ],
)
def test_another_file_is_one_sentence(file, text, sentence):
    with pytest.raises(warptune.Error, match=sentence) as error:
        warptune.read_csv(file(text))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(warptune.Error, match="'.*none.csv' cannot be read: No such file"):
        warptune.read_csv(tmp_path / "none.csv")
