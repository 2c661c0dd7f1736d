"""Text from tokens as they arrive."""


class TextStream:
    """The text of one sequence. A character is held back until its last byte is there, and what may begin a stop string
    until that is known. The text ends before the first stop string, or before an end token."""

    def __init__(self, tokenizer, stops, end_tokens):
        self._tokenizer, self._stops, self._end_tokens = tokenizer, stops, end_tokens
        self._ids = []  # the tokens whose text is not known yet, and those before them that it depends on
        self._known = 0  # tokens at the begin of _ids whose text was returned
        self._held = ""  # may begin a stop string
        self.ended = False

    def push(self, number):
        """The text that is certain now."""
        if self.ended:
            return ""
        if number in self._end_tokens:
            text = self._release(self._new_text(), True)
            self.ended = True
            return text
        self._ids.append(number)
        text = self._new_text()
        if not text or text.endswith("\ufffd"):
            return ""
        self._ids, self._known = self._ids[self._known :], len(self._ids) - self._known
        return self._release(text, False)

    def finish(self):
        """The text that was held back: no token comes any more."""
        if self.ended:
            return ""
        self.ended = True
        return self._release(self._new_text(), True)

    def _new_text(self):
        """The text of a token may depend on the token before it, such as a blank that the first one loses."""
        known = self._tokenizer.decode(self._ids[: self._known])
        return self._tokenizer.decode(self._ids)[len(known) :]

    def _release(self, text, last):
        text = self._held + text
        found = [at for at in map(text.find, self._stops) if at >= 0]
        if found:
            self.ended, self._held = True, ""
            return text[: min(found)]
        held = 0 if last else max((_begun(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _begun(text, stop):
    """The characters at the end of a text that are the begin of a stop string."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
