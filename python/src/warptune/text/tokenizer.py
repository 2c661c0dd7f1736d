"""The tokenizer of a checkpoint: tokenizer.json by the package tokenizers, else tokenizer.model by sentencepiece."""

import re

from .files import TOKENIZER_BYTES, InputError, first_line, need, read_bytes


def load_tokenizer(config):
    json, model = config.folder / "tokenizer.json", config.folder / "tokenizer.model"
    if json.exists():
        return JsonTokenizer(json, read_bytes(json, TOKENIZER_BYTES), config)
    if model.exists():
        return SentencePieceTokenizer(model, read_bytes(model, TOKENIZER_BYTES), config)
    raise InputError(f"'{config.folder}' has no tokenizer: neither tokenizer.json nor tokenizer.model")


class JsonTokenizer:
    """tokenizer.json, which says itself what is put around a text."""

    def __init__(self, path, data, config):
        tokenizers = need("tokenizers")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the library is no Exception
            message = first_line(error).removeprefix("Cannot instantiate Tokenizer from buffer: ")
            raise InputError(f"{path}: {message}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        known = {token.content for token in self._tokenizer.get_added_tokens_decoder().values()}
        added = [token for token in config.added.values() if token["content"] not in known]
        self._tokenizer.add_tokens([tokenizers.AddedToken(**token) for token in added])
        known |= {token["content"] for token in added}
        self._tokenizer.add_special_tokens([text for text in config.special_texts if text not in known])
        self.added_ids = set(self._tokenizer.get_added_tokens_decoder())

    def encode(self, text, add_special_tokens):
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids):
        """The text without special tokens; U+FFFD for bytes that are not UTF-8."""
        return self._tokenizer.decode(ids, skip_special_tokens=True)

    def id_of(self, text):
        return self._tokenizer.token_to_id(text)


class SentencePieceTokenizer:
    """tokenizer.model. The library does not look for special and added tokens in a text; this class does."""

    def __init__(self, path, data, config):
        sentencepiece = need("sentencepiece")
        self._model = model = sentencepiece.SentencePieceProcessor()
        try:
            model.LoadFromSerializedProto(data)
        except Exception as error:
            raise InputError(f"{path}: this is not a model of SentencePiece: {first_line(error)}") from error
        self._texts = [model.id_to_piece(i) for i in range(model.get_piece_size())]
        added = self._added_tokens(config)
        self._ids = {token["content"]: i for i, token in added.items()}
        self.added_ids = set(added)
        longest_first = sorted(added.items(), key=lambda item: -len(item[1]["content"]))
        self._id_of_group = [i for i, _ in longest_first]
        self._pattern = re.compile("|".join(_pattern(token) for _, token in longest_first) or "(?!)")
        self._bytes = dict(enumerate(map(self._piece_bytes, range(len(self._texts)))))
        self._bytes |= {i: b"" if t.get("special") else t["content"].encode() for i, t in added.items()}
        ends = ("bos", True, model.bos_id()), ("eos", False, model.eos_id())
        self._ends = [[i] if i >= 0 and config.values.get(f"add_{name}_token", on) else [] for name, on, i in ends]
        # A checkpoint that does not say "legacy": false has a blank before each part between added tokens.
        self._is_legacy = config.values.get("legacy") is not False
        # A model that puts a blank before a text takes it away from the text of its pieces.
        first = next((i for i, text in enumerate(self._texts) if text.startswith("▁")), None)
        self._adds_blank = first is not None and model.decode([first]) != self._texts[first].replace("▁", " ")

    def _added_tokens(self, config):
        """Those of the configuration, and the control pieces of the model."""
        for name, i in (("bos_token", self._model.bos_id()), ("eos_token", self._model.eos_id())):
            if i >= 0:
                config.special.setdefault(name, self._texts[i])
        special = set(config.special_texts)
        found = {
            i: {"content": text, "special": True}
            for i, text in enumerate(self._texts)
            if text and (text in special or self._model.is_control(i) or self._model.is_unknown(i))
        }
        return found | config.added

    def _piece_bytes(self, number):
        text = self._texts[number]
        return bytes([int(text[3:5], 16)]) if self._model.is_byte(number) else text.replace("▁", " ").encode()

    def encode(self, text, add_special_tokens):
        begin, end = self._ends if add_special_tokens else ([], [])
        ids, at = [], 0
        for found in self._pattern.finditer(text):
            ids += self._encode_part(text[at : found.start()], at)
            ids.append(self._id_of_group[found.lastindex - 1])
            at = found.end()
        return begin + ids + self._encode_part(text[at:], at) + end

    def _encode_part(self, text, at):
        if not text:
            return []
        if not self._adds_blank or self._is_legacy or at == 0:
            return self._model.encode(text)
        # Without the blank that the model puts before a text: it goes before a newline, which is a token of its own.
        newline, ids = self._model.encode("\n"), self._model.encode("\n" + text)
        return ids[len(newline) :] if ids[: len(newline)] == newline else self._model.encode(text)

    def decode(self, ids):
        """The text without special tokens; U+FFFD for bytes that are not UTF-8."""
        text = b"".join(self._bytes.get(i, b"") for i in ids).decode("utf-8", "replace")
        return text[1:] if self._adds_blank and text.startswith(" ") else text

    def id_of(self, text):
        return self._ids.get(text)


def _pattern(token):
    """A regular expression of an added token, with one group."""
    word = r"(?<!\w)({})(?!\w)" if token.get("single_word") else "({})"
    left, right = (r"\s*" if token.get(side) else "" for side in ("lstrip", "rstrip"))
    return left + word.format(re.escape(token["content"])) + right
