"""The tokenizer of a GGUF file, from the keys `tokenizer.*` of its metadata, which the program has read: byte-level BPE
(`gpt2`) by the package tokenizers, BPE of SentencePiece (`llama`) by sentencepiece."""

import json
import struct

from .config import Config
from .files import InputError
from .tokenizer import JsonTokenizer, SentencePieceTokenizer

_TYPES, _CONTROL, _USER_DEFINED = set(range(1, 7)), 3, 4  # tokenizer.ggml.token_type, as in SentencePiece

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _REST
_QWEN2 = _CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
           + _REST.replace(r"[\r\n]*", r"[\r\n/]*"))  # fmt: skip

# By tokenizer.ggml.pre: the pattern of the words into which a text is split, else those of GPT-2; whether a word that is
# a token is not split; whether a text begins with BOS where the file does not say.
_LLAMA3_WORDS = {"pattern": _LLAMA3, "ignore_merges": True, "add_bos": True}
_QWEN2_WORDS = {"pattern": _QWEN2, "normalizer": {"type": "NFC"}}
_WORDS = {
    "llama-bpe": _LLAMA3_WORDS,
    "llama3": _LLAMA3_WORDS,
    "llama-v3": _LLAMA3_WORDS,
    "qwen2": _QWEN2_WORDS,
    "deepseek-r1-qwen": _QWEN2_WORDS,
    "tekken": {"pattern": _TEKKEN, "ignore_merges": True, "add_bos": True},
    "smollm": {"digits": True},
    "refact": {"digits": True},
    "gpt-2": {},
}


class _Metadata:
    def __init__(self, path, values):
        self.path, self._values = path, values

    def get(self, key, default=None):
        value = self._values.get(f"tokenizer.{key}")
        return default if value is None else value

    def values_of(self, key, of, size=None):
        """A list of values of a type; `size`: how many there must be."""
        values = self.get(key)
        if not isinstance(values, list) or not all(isinstance(value, of) for value in values):
            raise InputError(f"{self.path}: 'tokenizer.{key}' must be a list of {of.__name__}")
        if size is not None and len(values) != size:
            raise InputError(f"{self.path}: 'tokenizer.{key}' has {len(values)} values for {size} tokens")
        return values


def load_gguf(path, values):
    """The configuration and the tokenizer."""
    metadata = _Metadata(path, values)
    model = metadata.get("ggml.model")
    if model not in ("gpt2", "llama"):
        raise InputError(f"{path}: 'tokenizer.ggml.model' is {json.dumps(model)[:60]}; gpt2 and llama can be read")
    tokens = metadata.values_of("ggml.tokens", str)
    types = metadata.values_of("ggml.token_type", int, len(tokens))
    if wrong := set(types) - _TYPES:
        raise InputError(f"{path}: 'tokenizer.ggml.token_type' holds {min(wrong)}; types are 1 to 6")
    words = _words(metadata) if model == "gpt2" else {"add_bos": True}
    config = Config(path, {}, chat_template=metadata.get("chat_template"))
    for name, on in (("bos", words.get("add_bos", False)), ("eos", False)):
        config.values[f"add_{name}_token"] = bool(metadata.get(f"ggml.add_{name}_token", on))
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = metadata.get(f"ggml.{key}_token_id")
        if isinstance(number, int) and 0 <= number < len(tokens):
            config.special[f"{name}_token"] = tokens[number]
    added = {i: kind == _CONTROL for i, kind in enumerate(types) if kind in (_CONTROL, _USER_DEFINED) and tokens[i]}
    config.added = {i: {"content": tokens[i], "special": special, "normalized": False} for i, special in added.items()}
    if model == "gpt2":
        return config, JsonTokenizer(path, _tokenizer_json(metadata, tokens, config, words).encode(), config)
    return config, SentencePieceTokenizer(path, _sentencepiece_model(metadata, tokens, types, config), config)


def _words(metadata):
    name = metadata.get("ggml.pre", "default")
    if name not in list(_WORDS):  # a list of a file is not hashable
        raise InputError(
            f"{metadata.path}: 'tokenizer.ggml.pre' is {json.dumps(name)[:60]}; {', '.join(_WORDS)} can be read")
    return _WORDS[name]


def _tokenizer_json(metadata, tokens, config, words):
    """The same tokenizer as a tokenizer.json."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = []
    if "pattern" in words:
        split = [{"type": "Split", "pattern": {"Regex": words["pattern"]}, "behavior": "Isolated", "invert": False}]
    elif words.get("digits"):
        split = [{"type": "Digits", "individual_digits": True}]
    bos, eos = ([config.special[name]] if config.values[f"add_{name}"] and name in config.special else []
                for name in ("bos_token", "eos_token"))  # fmt: skip
    marks = {text: {"SpecialToken": {"id": text, "type_id": 0}} for text in bos + eos}
    return json.dumps({
        "version": "1.0",
        "added_tokens": [{"id": i, "single_word": False, "lstrip": False, "rstrip": False, **token}
                         for i, token in config.added.items()],
        "normalizer": words.get("normalizer"),
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": split + [byte_level | {"use_regex": "pattern" not in words}]},
        "post_processor": {"type": "TemplateProcessing", "pair": [],
                           "single": [*map(marks.get, bos), {"Sequence": {"id": "A", "type_id": 0}},
                                      *map(marks.get, eos)],
                           "special_tokens": {text: {"id": text, "ids": [tokens.index(text)], "tokens": [text]}
                                              for text in marks}},
        "decoder": byte_level | {"use_regex": True},
        "model": {"type": "BPE", "ignore_merges": words.get("ignore_merges", False),
                  "vocab": {text: i for i, text in enumerate(tokens)},
                  "merges": metadata.values_of("ggml.merges", str)},
    })  # fmt: skip


def _sentencepiece_model(metadata, tokens, types, config):
    """The same tokenizer as a tokenizer.model, a message of Protocol Buffers (sentencepiece_model.proto)."""
    scores = metadata.values_of("ggml.scores", float, len(tokens))
    pieces = (_field(1, text.encode()) + _field(2, score) + _field(3, kind)
              for text, score, kind in zip(tokens, scores, types, strict=True))  # fmt: skip
    names = ((45, "unk"), (46, "bos"), (47, "eos"), (48, "pad"))
    trainer = _field(3, 2) + _field(35, 1)  # BPE with byte_fallback
    trainer += b"".join(_field(i, config.special.get(f"{name}_token", "").encode()) for i, name in names)
    adds_blank = int(bool(metadata.get("ggml.add_space_prefix", True)))
    # add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
    normalizer = _field(1, b"identity") + _field(3, adds_blank) + _field(4, 0) + _field(5, 1)
    return b"".join(_field(1, piece) for piece in pieces) + _field(2, trainer) + _field(3, normalizer)


def _field(number, value):
    """A field of a message: an integer, a float, or bytes."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    return _varint(number << 3) + _varint(value)


def _varint(value):
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(parts + [value])
