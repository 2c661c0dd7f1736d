"""What the JSON files beside a tokenizer say of its special and added tokens."""

from dataclasses import dataclass, field
from pathlib import Path

from .files import InputError, read_json

_FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")


@dataclass
class Config:
    folder: Path  # or the GGUF file
    values: dict  # of tokenizer_config.json
    special: dict = field(default_factory=dict)  # names as templates have them (bos_token): texts, or a list of them
    added: dict = field(default_factory=dict)  # ids: {"content": text} and flags
    chat_template: str | None = None  # of a GGUF file; a folder has it in files

    @property
    def special_texts(self):
        for value in self.special.values():
            yield from value if isinstance(value, list) else [value]


def read_config(folder):
    path = folder / "tokenizer_config.json"
    config = Config(folder, read_json(path))
    named = read_json(folder / "special_tokens_map.json") | {k: v for k, v in config.values.items() if v is not None}
    for name, value in named.items():
        if name.endswith("_token") and _text(value):
            config.special[name] = _text(value)
        elif name in ("additional_special_tokens", "extra_special_tokens") and isinstance(value, list):
            config.special[name] = [_text(token) for token in value if _text(token)]
    if "Llama" in str(config.values.get("tokenizer_class")):
        config.special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"} | config.special
    config.added = _added_tokens(path, config)
    return config


def _text(token):
    """A token is its text, or an object with its text."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _added_tokens(path, config):
    """Those of added_tokens.json, {text: id}, and those of tokenizer_config.json, {id: {"content": text, ..}}."""
    older, added = path.with_name("added_tokens.json"), {}
    for text, number in read_json(older).items():
        is_special = text in config.special_texts
        _add(added, older, number, text, {"special": is_special, "normalized": not is_special})
    decoder = config.values.get("added_tokens_decoder") or {}
    for number, token in decoder.items() if isinstance(decoder, dict) else [("?", decoder)]:
        if not (number.isdecimal() and isinstance(token, dict) and _text(token)):
            raise InputError(f"{path}: added_tokens_decoder: '{number}' must be an id with an object that has 'content'")
        _add(added, path, int(number), _text(token), {name: bool(token[name]) for name in _FLAGS if name in token})
    return dict(sorted(added.items()))


def _add(added, path, number, text, flags):
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise InputError(f"{path}: the id of '{text}' must be an integer from 0 to {(1 << 31) - 1}")
    if text:
        added[number] = {"content": text, **flags}
