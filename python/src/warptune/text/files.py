"""Files of a checkpoint and packages of PyPI. What cannot be used is an InputError, one sentence for the user."""

import importlib
import json
import shlex
import stat
import sys
from pathlib import Path

CONFIG_BYTES, TOKENIZER_BYTES = 16 << 20, 100_000_000  # sizes that no such file of use exceeds


class InputError(Exception):
    pass


def first_line(error):
    """The begin of a message: a template of others may make it as long as it likes."""
    return next(iter(str(error).strip().splitlines()), "")[:400] or type(error).__name__


def need(name, of="text"):
    """The package `name`, which warptune.`of` uses; where it is missing, the error has the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pins = (Path(__file__).parents[1] / of / "requirements.txt").read_text().split()
        command = shlex.join([sys.executable, "-m", "pip", "install", *pins])
        sentence = f"{of} needs the Python package {name} ({first_line(error)}); install it with: {command}"
        raise InputError(sentence) from error


def read_bytes(path, limit):
    """The bytes of a regular file: a pipe would block, a device has no end."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} cannot be read: it is not a regular file")
        if status.st_size > limit:
            raise InputError(f"{path} cannot be read: it has {status.st_size} bytes; at most {limit} are read")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith(b"version https://git-lfs.github.com/spec/"):
        raise InputError(f"{path}: this is a Git LFS pointer; 'git lfs pull' fetches the file itself")
    return data


def read_json(path):
    """A JSON object; an empty one where there is no such file."""
    if not path.exists():
        return {}
    try:
        value = json.loads(read_bytes(path, CONFIG_BYTES))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}, column {error.colno}: {error.msg}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: this is not JSON: {first_line(error)}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: this is not a JSON object")
    return value
