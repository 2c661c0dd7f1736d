"""A checkpoint's text: what the requests of __main__.py do."""

from pathlib import Path

from .chat import ChatTemplate
from .config import read_config
from .files import InputError
from .gguf import load_gguf
from .stream import TextStream
from .tokenizer import load_tokenizer

_ANSWER = "answer of warptune"  # a text that no template has


class Session:
    def __init__(self, path, metadata=None):
        """Of a folder, or of a GGUF file with its metadata."""
        if metadata is None:
            self._config = read_config(Path(path))
            self._tokenizer = load_tokenizer(self._config)
        else:
            self._config, self._tokenizer = load_gguf(Path(path), metadata)
        self._chat = None
        self._streams = []

    def encode(self, texts, chat):
        """The ids of each text; with `chat`, of the prompt with the text as the one message of a user."""
        if not chat:
            return [self._tokenizer.encode(text, add_special_tokens=True) for text in texts]
        return [self._tokenizer.encode(self.render(text), add_special_tokens=False) for text in texts]

    def render(self, text):
        return self._template().render([{"role": "user", "content": text}], add_generation_prompt=True)

    def begin(self, sequences, stops, end_tokens, chat):
        ends = set(end_tokens) | (self.ends_of_turn() if chat else set())
        self._streams = [TextStream(self._tokenizer, stops, ends) for _ in range(sequences)]

    def push(self, tokens):
        """The new text of each sequence, how many of its tokens were used, and whether it has ended."""
        pieces = []
        for stream, ids in zip(self._streams, tokens, strict=True):
            texts = []
            for number in ids:
                if stream.ended:
                    break
                texts.append(stream.push(number))
            pieces.append({"text": "".join(texts), "tokens": len(texts), "ended": stream.ended})
        return pieces

    def finish(self):
        return [stream.finish() for stream in self._streams]

    def ends_of_turn(self):
        """The end token of the tokenizer, and the one that the chat template puts after an answer."""
        ends = {self._tokenizer.id_of(self._config.special.get("eos_token", ""))}
        messages = [{"role": "user", "content": "question"}, {"role": "assistant", "content": _ANSWER}]
        try:
            after = self._template().render(messages, add_generation_prompt=False).rpartition(_ANSWER)[2].lstrip()
        except InputError:  # a template may render prompts only
            after = ""
        ends.update(i for i in self._tokenizer.encode(after, False)[:1] if i in self._tokenizer.added_ids)
        return ends - {None}

    def _template(self):
        if self._chat is None:
            self._chat = ChatTemplate(self._config)
        return self._chat
