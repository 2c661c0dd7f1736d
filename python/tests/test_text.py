"""warptune.text: what prompts become, text from tokens as they arrive, and the process that serves them."""

import io
import json
import os
import random
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

pytest.importorskip("tokenizers", reason="the packages of text are not installed")
pytest.importorskip("sentencepiece", reason="the packages of text are not installed")
pytest.importorskip("jinja2", reason="the packages of text are not installed")

import sentencepiece
import tokenizers
import warptune
from chat_templates import CHATS
from tokenizers import decoders, models, pre_tokenizers, processors
from warptune.text.files import InputError
from warptune.text.session import Session
from warptune.text.stream import TextStream

MARKS = ["<s>", "</s>", "<|eot_id|>", "<end_of_turn>", "<|im_end|>", "<|end|>"]


def bytes_tokenizer(marks=MARKS):
    """256 tokens, the bytes in the order of the alphabet of ByteLevel, and special tokens; <s> begins a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(models.BPE({text: i for i, text in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(marks)
    if marks:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    return made


def write(folder, **files):
    """Writes `name_with_suffix=object` as JSON, and texts as they are."""
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.fixture
def model(tmp_path):
    """A folder with a tokenizer.json."""
    return write(tmp_path, tokenizer_json=bytes_tokenizer().to_str())


@pytest.fixture(scope="session")
def pieces():
    """A tokenizer.model as LLaMA 2's: byte fallback, a blank before a text, no normalization."""
    model = io.BytesIO()
    texts = ["hello there, one two three", "the other hello", "a tool and two tools"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=320, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        minloglevel=2)  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture
def piece_model(tmp_path, pieces):
    """A folder with a tokenizer.model."""
    (tmp_path / "tokenizer.model").write_bytes(pieces.serialized_model_proto())
    return tmp_path


def encode(folder, text, chat=False):
    return Session(folder).encode([text], chat)[0]


def refusal(work):
    with pytest.raises(InputError) as caught:
        work()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Chat templates


@pytest.mark.parametrize("name", CHATS)
def test_public_templates(model, name):
    template, prompt, end = CHATS[name]
    write(model, tokenizer_config_json={"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}})
    session = Session(model)
    assert session.render(" hi ") == prompt
    assert session.encode([" hi "], True) == [bytes_tokenizer().encode(prompt, add_special_tokens=False).ids]
    tokens = bytes_tokenizer()
    assert session.ends_of_turn() == {tokens.token_to_id("</s>"), tokens.token_to_id(end or "</s>")}


def test_places_of_templates(model):
    chat = {"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "named"}]}
    write(model, chat_template_json={"chat_template": "old"})
    assert Session(model).render("x") == "old"
    write(model, tokenizer_config_json=chat)
    assert Session(model).render("x") == "named"
    write(model, tokenizer_config_json={"chat_template": {"default": "object"}})
    assert Session(model).render("x") == "object"
    write(model, chat_template_jinja="{{ messages[0].content }} of a file")
    assert Session(model).render("x") == "x of a file"
    (model / "additional_chat_templates").mkdir()
    (model / "additional_chat_templates" / "rag.jinja").write_text("rag")
    assert Session(model).render("x") == "x of a file"
    (model / "chat_template.jinja").unlink()
    assert refusal(lambda: Session(model).render("x")).endswith("no chat template is named 'default'; there is rag")


def test_a_folder_without_a_template(model):
    assert refusal(lambda: encode(model, "x", True)) == (
        f"'{model}' has no chat template: neither in chat_template.jinja, tokenizer_config.json nor chat_template.json"
    )


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ {'b': '<é>', 'a': [1, none]} | tojson }}", '{"b": "<é>", "a": [1, null]}'),
        ("{{ {'b': 1} | tojson(indent=2) }}", '{\n  "b": 1\n}'),
        ("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "013"),
        ("{% generation %}in{% endgeneration %}", "in"),
        ("  {% if true %}\n a\n  {% endif %}\nb", " a\nb"),
        ("{{ strftime_now('%Y') }}", str(datetime.now().year)),
        ("{{ bos_token }}{{ pad_token }}{{ tools is none }}", "<s>True"),
        ("{{ image_token }}{{ additional_special_tokens[1] }}", "<image><b>"),
    ],
)  # fmt: skip
def test_what_templates_have(model, template, text):
    special = {"bos_token": "<s>", "image_token": "<image>", "additional_special_tokens": ["<a>", {"content": "<b>"}]}
    write(model, tokenizer_config_json={"chat_template": template, **special})
    assert Session(model).render("x") == text


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{% if %}", "line 1 of the chat template: Expected an expression, got 'end of statement block'"),
        ("\n{% what %}", "line 2 of the chat template: Encountered unknown tag 'what'."),
        ("{{ raise_exception('no user') }}", "the chat template refuses the prompt: no user"),
        ("{{ nothing.at.all }}", "the chat template refuses the prompt: 'nothing' is undefined"),
        ("{{ ''.__class__.__mro__ }}", "the chat template refuses the prompt: access to attribute '__class__' of 'str' "
                                       "object is unsafe."),
        ("{{ ('x' * 99999999999)|length }}", "the chat template refuses the prompt: MemoryError"),
        ("{{ messages.append(1) }}", "the chat template refuses the prompt: access to attribute 'append' of 'list' "
                                     "object is unsafe."),
    ],
)  # fmt: skip
def test_templates_that_do_not_render(model, template, sentence):
    write(model, chat_template_jinja=template)
    assert refusal(lambda: encode(model, "x", True)) == f"{model / 'chat_template.jinja'}: {sentence}"


@pytest.mark.parametrize(("template", "is_"), [(5, "5"), (True, "true"), ({"default": 5}, "5")])
def test_a_template_is_a_text(model, template, is_):
    write(model, tokenizer_config_json={"chat_template": template})
    sentence = f"{model / 'tokenizer_config.json'}: the chat template must be a text, and is {is_}"
    assert refusal(lambda: encode(model, "x", True)) == sentence


# Tokenizers


def test_tokenizer_json_says_what_is_put_around_a_text(model):
    write(model, tokenizer_config_json={"add_bos_token": False, "add_eos_token": True})  # as transformers 5
    assert encode(model, "a</s>") == [256, bytes_tokenizer().token_to_id("a"), 257]


def test_padding_and_truncation_of_tokenizer_json_are_left_out(tmp_path):
    made = bytes_tokenizer()
    made.enable_truncation(2)
    made.enable_padding(length=9)
    write(tmp_path, tokenizer_json=made.to_str())
    assert len(encode(tmp_path, "abcd")) == 5


def test_added_tokens_beside_tokenizer_json(model):
    count = bytes_tokenizer().get_vocab_size()
    write(model, tokenizer_config_json={
        "added_tokens_decoder": {str(count): {"content": "<tool>", "special": False, "lstrip": True}},
        "pad_token": "<pad>"})  # fmt: skip
    session = Session(model)
    assert session.encode([" <tool><pad>"], False)[0] == [256, count, count + 1]
    assert session._tokenizer.decode([count, count + 1]) == "<tool>", "<pad> is special"


def test_tokenizer_model_as_its_library(piece_model, pieces):
    session = Session(piece_model)
    for text in ("hello there", "  two  blanks ", "naïve\nline é", "▁"):
        assert session.encode([text], False) == [[1, *pieces.encode(text)]]
        assert session._tokenizer.decode(pieces.encode(text)) == pieces.decode(pieces.encode(text))


def test_special_tokens_in_a_text_for_tokenizer_model(piece_model, pieces):
    assert encode(piece_model, "<s>hello</s>") == [1, 1, *pieces.encode("hello"), 2]
    write(piece_model, tokenizer_config_json={"add_bos_token": False, "add_eos_token": True})
    assert encode(piece_model, "hello") == [*pieces.encode("hello"), 2]


def test_added_tokens_beside_tokenizer_model(piece_model, pieces):
    write(piece_model, added_tokens_json={"<|im_start|>": 320, "<|im_end|>": 321, "<|im": 322})
    assert encode(piece_model, "<|im_start|>two<|im_end|>") == [1, 320, *pieces.encode("two"), 321]
    assert Session(piece_model)._tokenizer.decode([320, *pieces.encode("two")]) == "<|im_start|> two"
    write(piece_model, special_tokens_map_json={"eos_token": "<|im_end|>"},
          tokenizer_config_json={"added_tokens_decoder": {"323": {"content": "<tool>", "lstrip": True, "rstrip": True},
                                                          "324": {"content": "tool", "single_word": True}}})  # fmt: skip
    assert encode(piece_model, "two <tool> tools tool<|im_end|>") == [
        1, *pieces.encode("two"), 323, *pieces.encode("tools "), 324, 321]  # fmt: skip
    assert Session(piece_model)._tokenizer.decode([321, 323]) == "<tool>", "the end token is special"
    assert 321 in Session(piece_model).ends_of_turn()


def test_only_legacy_models_put_a_blank_after_added_tokens(piece_model, pieces):
    assert encode(piece_model, "a</s>two") == [1, *pieces.encode("a"), 2, *pieces.encode("two")]
    write(piece_model, tokenizer_config_json={"legacy": False})
    with_blank, without = pieces.piece_to_id("▁two"), encode(piece_model, "a</s>two")
    assert pieces.encode("two") == [with_blank]
    assert with_blank not in without and pieces.decode(without[3:]) == "two"


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"tokenizer_json": "{"}, "{}/tokenizer.json: EOF while parsing an object at line 1 column 1"),
        ({"tokenizer_json": "[]"}, "{}/tokenizer.json: "),
        ({"tokenizer_json": "version https://git-lfs.github.com/spec/v1\n"},
         "{}/tokenizer.json: this is a Git LFS pointer; 'git lfs pull' fetches the file itself"),
        ({"tokenizer_model": "this is no model"}, "{}/tokenizer.model: this is not a model of SentencePiece: "),
        ({"tokenizer_config_json": '{"a": 1,\n "b": }'}, "{}/tokenizer_config.json: line 2, column 7: Expecting value"),
        ({"tokenizer_config_json": "[]"}, "{}/tokenizer_config.json: this is not a JSON object"),
        ({"tokenizer_config_json": "[" * 100000}, "{}/tokenizer_config.json: this is not JSON: "),
        ({"tokenizer_config_json": {"added_tokens_decoder": {"x": {}}}},
         "{}/tokenizer_config.json: added_tokens_decoder: 'x' must be an id with an object that has 'content'"),
        ({"tokenizer_config_json": {"added_tokens_decoder": {"3000000000": {"content": "<x>"}}}},
         "{}/tokenizer_config.json: the id of '<x>' must be an integer from 0 to 2147483647"),
        ({"added_tokens_json": {"<x>": "1"}}, "{}/added_tokens.json: the id of '<x>' must be an integer from 0 to 2147483647"),
        ({}, "'{}' has no tokenizer: neither tokenizer.json nor tokenizer.model"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(tmp_path, files, sentence):
    write(tmp_path, **files)
    assert refusal(lambda: Session(tmp_path)).startswith(sentence.replace("{}", str(tmp_path)))


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "tokenizer.json")
    assert refusal(lambda: Session(tmp_path)).endswith("tokenizer.json cannot be read: it is not a regular file")


# Text from tokens


def texts_of(tokenizer, ids, stops=(), ends=()):
    stream = TextStream(tokenizer, list(stops), set(ends))
    return [*map(stream.push, ids), stream.finish()], stream


def test_a_character_is_complete(model):
    tokenizer = Session(model)._tokenizer
    parts, _ = texts_of(tokenizer, tokenizer.encode("aé€😀", False))
    assert parts == ["a", "", "é", "", "", "€", "", "", "", "😀", ""]
    broken = tokenizer.encode("é", False)[:1]
    assert texts_of(tokenizer, broken)[0] == ["", "\ufffd"]
    assert "".join(texts_of(tokenizer, broken + tokenizer.encode("a", False))[0]) == "\ufffda"


def test_streams_make_the_text_of_all_ids(model, piece_model):
    rng = random.Random(1)
    for folder in (model, piece_model):
        tokenizer = Session(folder)._tokenizer
        for _ in range(200):
            text = "".join(rng.choice("ab hello two\n éß€😀") for _ in range(rng.randrange(1, 20)))
            ids = tokenizer.encode(text, False)
            assert "".join(texts_of(tokenizer, ids)[0]) == tokenizer.decode(ids)


def test_stop_strings_and_end_tokens(model):
    tokenizer = Session(model)._tokenizer
    ids = tokenizer.encode("one, two", False)
    parts, stream = texts_of(tokenizer, ids, stops=[", t", "owo"])
    assert parts == ["", "on", "e", "", "", "", "", "", ""]
    assert "".join(parts) == "one" and stream.ended
    assert "".join(texts_of(tokenizer, ids, stops=[", x"])[0]) == "one, two", "what only begins a stop string is text"
    assert "".join(texts_of(tokenizer, ids, ends=[tokenizer.encode(",", False)[0]])[0]) == "one"
    assert "".join(texts_of(tokenizer, tokenizer.encode("x<|end|>,</s>y", False), ends=[257])[0]) == "x,"


def test_a_batch(model):
    session = Session(model)
    ids = session.encode(["ab.cd", "é"], False)
    session.begin(2, ["."], [257], False)
    assert session.push([ids[0], ids[1][:2]]) == [
        {"text": "ab", "tokens": 4, "ended": True}, {"text": "", "tokens": 2, "ended": False}]  # fmt: skip
    assert session.push([[5], [257]]) == [
        {"text": "", "tokens": 0, "ended": True}, {"text": "\ufffd", "tokens": 1, "ended": True}]  # fmt: skip
    assert session.finish() == ["", ""]


# The process


def serve(folder, requests, code="", **variables):
    """The replies of `python3 -m warptune.text`. `code` is a module 'tokenizers' that comes before the package."""
    package = Path(warptune.__file__).parents[1]
    path = [str(package)]
    if code:
        (folder / "fake").mkdir()
        (folder / "fake" / "tokenizers.py").write_text(code)
        path.insert(0, str(folder / "fake"))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)} | variables
    ended = subprocess.run([sys.executable, "-m", "warptune.text", folder], env=environment, capture_output=True,
                           input="".join(json.dumps(r) + "\n" for r in requests), text=True, check=True)  # fmt: skip
    assert "Traceback" not in ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_requests_are_answered_in_order(model):
    replies = serve(model, [
        {"encode": {"texts": ["a"], "chat": False}}, {"encode": {"texts": ["a"], "chat": True}},
        {"begin": {"sequences": 1, "stops": [], "end_tokens": [257], "chat": False}},
        {"push": {"tokens": [[65, 257]]}}, {"push": {"tokens": [[], []]}}, {"finish": {}}])  # fmt: skip
    text = bytes_tokenizer().decode([65])
    assert replies[:2] == [{"ready": True}, {"ids": [[256, bytes_tokenizer().token_to_id("a")]]}]
    assert "has no chat template" in replies[2]["error"]
    assert replies[3:5] == [{"ready": True}, {"pieces": [{"text": text, "tokens": 2, "ended": True}]}]
    assert replies[5] == {"error": "ValueError: zip() argument 2 is longer than argument 1"}
    assert replies[6] == {"texts": [""]}


def test_a_missing_package_is_the_command_that_installs_it(model):
    ((name, sentence),) = serve(model, [], code="raise ImportError('not today')")[0].items()
    pins = (Path(warptune.__file__).parent / "text" / "requirements.txt").read_text().split()
    assert name == "error"
    assert sentence == (f"text needs the Python package tokenizers (not today); install it with: {sys.executable} -m pip "
                        "install " + " ".join(pins))  # fmt: skip


def test_a_panic_of_the_library_is_a_sentence(model):
    code = ("class Tokenizer:\n    @staticmethod\n    def from_buffer(data):\n        print('noise')\n"
            "        raise BaseException('a panic\\nof two lines')\n")  # fmt: skip
    assert serve(model, [], code=code) == [{"error": f"{model / 'tokenizer.json'}: a panic"}]


def test_the_process_needs_no_extension(model):
    code = ("import sys\nsys.path.insert(0, sys.argv[1])\nimport warptune, warptune.text.session\n"
            "assert not [m for m in sys.modules if m.endswith('_native')]")  # fmt: skip
    subprocess.run([sys.executable, "-c", code, Path(warptune.__file__).parents[1]], check=True)


def test_the_extra_of_the_package_has_the_same_pins():
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    pins = (Path(warptune.__file__).parent / "text" / "requirements.txt").read_text().split()
    assert "text = [" + ", ".join(f'"{pin}"' for pin in pins) + "]" in project
