"""The CSV of a sweep as a pandas DataFrame (docs/csv-schema.md)."""

import io
from pathlib import Path

from ._native import Error

SCHEMA = 1
KEY = ["device", "arch", "driver", "toolkit", "problem", "variant", "config", "cache", "step"]
_TEXTS = "run_id git_commit host op dtype status detail throttled code_hash sampling card".split() + KEY


def read_csv(path, *, all_rows=False):
    """The rows of a sweep, with a column `dim.NAME` per dim and `config.NAME` per parameter.

    Of several rows with the same key the last counts; `all_rows=True` keeps all. What a stopped sweep left of its last
    line is no row.
    """
    import pandas

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"'{path}' cannot be read: {error.strerror}") from None
    text = text[: text.rfind("\n") + 1]
    if not text.startswith("schema,"):
        raise Error(f"'{path}' is no CSV of a sweep: its first column must be 'schema'")
    try:
        rows = pandas.read_csv(
            io.StringIO(text), dtype={name: str for name in _TEXTS}, keep_default_na=False, na_values={}
        )
    except (pandas.errors.ParserError, ValueError) as error:
        raise Error(f"'{path}': {' '.join(str(error).split())}") from None
    missing = [name for name in ("problem", "variant", "config", "cache", "time_us") if name not in rows]
    if missing:
        raise Error(f"'{path}' lacks the columns {', '.join(missing)}")
    if (rows["schema"] != SCHEMA).any():
        raise Error(f"'{path}' has rows of another schema than {SCHEMA}")
    for name in rows.columns.difference(_TEXTS):
        if name != "timestamp_utc":
            rows[name] = _numbers(pandas, path, rows[name])
    rows["timestamp_utc"] = pandas.to_datetime(rows["timestamp_utc"])
    if not all_rows:
        rows = rows.drop_duplicates([name for name in KEY if name in rows], keep="last").reset_index(drop=True)
    dims = rows["problem"].map(lambda key: _pairs(key.partition("[")[2].removesuffix("]")))
    dims = [{name: value for name, value in row.items() if name != "dtype"} for row in dims]
    parts = [rows, _columns(pandas, "dim", dims), _columns(pandas, "config", rows["config"].map(_pairs))]
    return pandas.concat(parts, axis=1)


def _pairs(text):
    """{"block": "256"} of "block=256"; a value may be empty."""
    return dict(pair.partition("=")[::2] for pair in text.split(",") if pair)


def _numbers(pandas, path, column):
    try:
        return pandas.to_numeric(column.replace("", None))
    except (ValueError, TypeError) as error:
        raise Error(f"'{path}': column '{column.name}': {error}") from None


def _columns(pandas, prefix, rows):
    """A column per name that occurs, integers as Int64, with <NA> where a row has none."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        values = pandas.Series([row.get(name) for row in rows], dtype="object")
        whole = values.dropna().map(lambda value: value.removeprefix("-").isdigit()).all()
        columns[f"{prefix}.{name}"] = pandas.to_numeric(values).astype("Int64") if whole else values
    return pandas.DataFrame(columns, index=range(len(rows)))
