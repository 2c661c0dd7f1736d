"""Folders with mistakes, from tests/data/launch and from the corpus of the fuzz target: each is a warptune.Error, never
another exception or a signal."""

import copy
import json
import os
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
DATA = TREE / "tests" / "data" / "launch"

OPEN_ALL = """
import json, pathlib, sys, warptune
members = {"rms_norm": {"x": 4096, "y": 4096}, "linear": {"weight": 4096, "rows": 128}}
errors = {}
for folder in pathlib.Path(sys.argv[1]).iterdir():
    errors[folder.name] = ""
    try:
        ops = warptune.load(folder, torch=False)
        for plan in ops.plans:
            ops.find(plan["problem"])
            ops.launch(plan["problem"], members.get(plan["op"], {}))
    except warptune.Error as e:
        errors[folder.name] = str(e)
with open(sys.argv[2], "w") as file:
    json.dump(errors, file)
"""


def write_folder(path, content):
    (path / "cubins").mkdir(parents=True)
    (path / "cubins" / "1.cubin").write_bytes(b"machine code")
    (path / "warptune.json").write_bytes(content)


def with_mistake(valid, mistake):
    """The document with one value changed, added, or removed where the mistake has none."""
    document = copy.deepcopy(valid)
    *way, last = [int(key) if key.isdigit() else key for key in mistake["at"].split("/")]
    place = document
    for key in way:
        place = place[key]
    if "value" in mistake:
        place[last] = mistake["value"]
    else:
        del place[last]
    return json.dumps(document).encode()


def errors_of(driver, folders, result):
    """The message of the Error of each folder; empty where all its plans are launched."""
    driver(OPEN_ALL, folders, result)
    return json.loads(result.read_text())


def test_a_mistake_is_an_error_that_names_the_value(driver, tmp_path):
    valid, mistakes = (json.loads((DATA / name).read_text()) for name in ("valid.json", "mistakes.json"))
    write_folder(tmp_path / "folders" / "valid", json.dumps(valid).encode())
    for i, mistake in enumerate(mistakes):
        write_folder(tmp_path / "folders" / str(i), with_mistake(valid, mistake))
    errors = errors_of(driver, tmp_path / "folders", tmp_path / "errors")
    assert errors["valid"] == ""
    for i, mistake in enumerate(mistakes):
        assert mistake["says"] in errors[str(i)], mistake


def test_the_corpus_of_the_fuzz_target_raises_no_other_exception(driver, tmp_path):
    corpus = sorted((TREE / "tests" / "fuzz" / "corpus" / "launch").iterdir())
    for file in corpus:
        write_folder(tmp_path / "folders" / file.name, file.read_bytes())
    errors = errors_of(driver, tmp_path / "folders", tmp_path / "errors")
    assert len(errors) == len(corpus) > 0


def test_a_fifo_does_not_block(driver, tmp_path):
    write_folder(tmp_path / "folders" / "fifo", b"")
    file = tmp_path / "folders" / "fifo" / "warptune.json"
    file.unlink()
    os.mkfifo(file)
    errors = errors_of(driver, tmp_path / "folders", tmp_path / "errors")
    assert "warptune.json' cannot be read: it is no regular file" in errors["fifo"]
