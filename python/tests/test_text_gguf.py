"""warptune.text of a GGUF file: the same ids as the tokenizer has that the metadata was made from."""

import json
import random

import pytest

pytest.importorskip("tokenizers", reason="the packages of text are not installed")

from test_text import MARKS, bytes_tokenizer, pieces, refusal, serve, write  # noqa: F401 (pieces is a fixture)
from warptune.text.gguf import load_gguf
from warptune.text.session import Session

ALPHABET = "aeiou lth12345\n\r\t.,'é世😀/"


def texts():
    rng = random.Random(1)
    marks = ["", "", "", " ", "<s>", "</s>", "<|eot_id|>"]
    return ["".join(rng.choice(ALPHABET) + rng.choice(marks) for _ in range(rng.randrange(1, 20))) for _ in range(300)]


def metadata_of_bytes(**more):
    """Of bytes_tokenizer() with one merge."""
    tokens = sorted(json.loads(bytes_tokenizer([]).to_str())["model"]["vocab"]) + MARKS + ["th"]
    types = [1] * 256 + [3] * len(MARKS) + [1]
    values = {"model": "gpt2", "pre": "llama-bpe", "tokens": tokens, "token_type": types, "merges": ["t h"],
              "bos_token_id": 256, "eos_token_id": 257} | more  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def metadata_of_pieces(model):
    count = range(model.get_piece_size())
    kinds = {2: model.is_unknown, 3: model.is_control, 5: model.is_unused, 6: model.is_byte}
    types = [next((kind for kind, has in kinds.items() if has(i)), 1) for i in count]
    values = {"model": "llama", "tokens": [model.id_to_piece(i) for i in count], "token_type": types,
              "scores": [model.get_score(i) for i in count], "bos_token_id": model.bos_id(),
              "eos_token_id": model.eos_id(), "unknown_token_id": model.unk_id()}  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def test_bytes(tmp_path):
    session = Session("model.gguf", metadata_of_bytes(merges=[]))
    folder = Session(write(tmp_path, tokenizer_json=bytes_tokenizer().to_str()))
    assert session.encode(texts(), False) == folder.encode(texts(), False)
    assert Session("model.gguf", metadata_of_bytes()).encode(["th ht"], False)[0][:2] == [256, 256 + len(MARKS)]


def test_pieces(tmp_path, pieces):  # noqa: F811
    (tmp_path / "tokenizer.model").write_bytes(pieces.serialized_model_proto())
    session, folder = Session("model.gguf", metadata_of_pieces(pieces)), Session(tmp_path)
    ids = folder.encode(texts(), False)
    assert session.encode(texts(), False) == ids
    for one in (session, folder):
        one.begin(len(ids), [], [], False)
    assert session.push(ids) == folder.push(ids) and session.finish() == folder.finish()
    without = Session("model.gguf", metadata_of_pieces(pieces) | {"tokenizer.ggml.add_bos_token": False})
    assert without.encode(["the"], False)[0] == session.encode(["the"], False)[0][1:]


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("llama-bpe", ["I", "'VE", " ", "123", "45", " x", "/y", "!\n\n", " ", " a", "\u0301"]),
        ("qwen2", ["I", "'VE", " ", "1", "2", "3", "4", "5", " x", "/y", "!\n\n", " ", " á"]),
        ("tekken", ["I", "'VE", " ", "1", "2", "3", "4", "5", " x", "/y", "!\n\n", " ", " a\u0301"]),
        ("smollm", ["I", "'", "VE", " ", "1", "2", "3", "4", "5", " x", "/", "y", "!", "\n\n ", " a", "\u0301"]),
        ("gpt-2", ["I", "'", "VE", " 12345", " x", "/", "y", "!", "\n\n ", " a", "\u0301"]),
    ],
)
def test_words(pre, words):
    """The words into which each model splits a text; qwen2 composes characters first."""
    _, tokenizer = load_gguf("model.gguf", metadata_of_bytes(pre=pre))
    text = "I'VE 12345 x/y!\n\n  a\u0301"
    inner = tokenizer._tokenizer
    normal = inner.normalizer.normalize_str(text) if inner.normalizer else text
    found = [word for word, _ in inner.pre_tokenizer.pre_tokenize_str(normal)]
    decoded = [inner.decoder.decode([word]) for word in found]
    assert decoded == words


def test_a_text_begins_with_bos_where_the_model_or_the_file_says_so():
    def first(**more):
        return Session("model.gguf", metadata_of_bytes(**more)).encode(["a"], False)[0][0]

    assert first() == first(pre="tekken") == first(pre="qwen2", add_bos_token=True) == 256
    assert first(pre="qwen2") == first(add_bos_token=False) != 256


def test_a_chat_template_is_used(tmp_path):
    path = tmp_path / "model.gguf"
    path.touch()
    template = "{{ bos_token }}{% for m in messages %}[{{ m.content }}]{{ eos_token }}{% endfor %}"
    metadata = metadata_of_bytes() | {"tokenizer.chat_template": template}
    session = Session(path, metadata)
    assert session.render("hi") == "<s>[hi]</s>"
    assert session.ends_of_turn() == {257}
    (ready, ids) = serve(path, [{"metadata": metadata}, {"encode": {"texts": ["th"], "chat": True}}])
    assert ready == {"ready": True} and ids["ids"] == session.encode(["th"], True)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "t5"}, """'tokenizer.ggml.model' is "t5"; gpt2 and llama can be read"""),
        ({"model": None}, "'tokenizer.ggml.model' is null; gpt2 and llama can be read"),
        ({"pre": "mpt"}, """'tokenizer.ggml.pre' is "mpt"; llama-bpe, llama3, """),
        ({"pre": ["mpt"]}, """'tokenizer.ggml.pre' is ["mpt"]; llama-bpe, llama3, """),
        ({"pre": None}, """'tokenizer.ggml.pre' is "default"; llama-bpe, llama3, """),
        ({"tokens": None}, "'tokenizer.ggml.tokens' must be a list of str"),
        ({"tokens": [1]}, "'tokenizer.ggml.tokens' must be a list of str"),
        ({"token_type": [1]}, f"'tokenizer.ggml.token_type' has 1 values for {257 + len(MARKS)} tokens"),
        ({"token_type": [-1] * (257 + len(MARKS))}, "'tokenizer.ggml.token_type' holds -1; types are 1 to 6"),
        ({"merges": None}, "'tokenizer.ggml.merges' must be a list of str"),
        ({"merges": ["t h", "th th"]}, "Token `thth` out of vocabulary"),
        ({"model": "llama"}, "'tokenizer.ggml.scores' must be a list of float"),
        ({"model": "llama", "scores": [0.0] * (257 + len(MARKS))}, "this is not a model of SentencePiece: "),
    ],
)
def test_metadata_that_cannot_be_used(change, sentence):
    assert refusal(lambda: Session("model.gguf", metadata_of_bytes(**change))).startswith(f"model.gguf: {sentence}")
