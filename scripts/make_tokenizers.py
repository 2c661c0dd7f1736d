#!/usr/bin/env python3
"""Trains small tokenizers of the kinds that LLaMAs have, and writes texts with the ids and the texts that the
libraries `tokenizers` and `sentencepiece` make of them.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    scripts/make_tokenizers.py [tests/data/tokenizers] [--lines 200] [--seed 1]

Each folder holds a tokenizer and cases.jsonl: a list [text, ids] per line, or [text, ids, decoded] where decoding the
ids gives another text. Texts are generated from the seed; training breaks ties in an order of its own, so that a second
run may write another tokenizer.
"""
import argparse
import json
import pathlib
import random
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                  r"|\s*[\r\n]+|\s+(?!\S)|\s+")

WORDS = """the of and to in a is that for it was on are as with his they at be this from have or by one had not but
what all were when we there can an your which their said if do will each about how up out them then she many some so
these would other into has more her two like him see time could no make than first been its who now people my made over
did down only way find use may water long little very after words called just where most know I'm you're he's they'd
we'll I've DON'T IT'S It'll""".split()
ACCENTS = """naïve café Straße Ærøskøbing señor żółw Ångström Ελλάδα привет мир шалом שלום مرحبا भारत ภาษาไทย ǅ
ſt ﬁ""".split()
CJK = ["你好世界", "東京", "日本語のテキスト", "カタカナ", "한국어", "中文字符測試", "，。！？", "　全角　空白　"]
EMOJI = ["😀", "🎉🎊", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽", "❤️", "①②Ⅷ½", "🅰", "\U0010ffff", "\U000e0001"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003\u2003", "\u3000", "\u0085", "\u2028",
          "\u200b", "\u200d", "\u180e", "\v", "\f", " \t \n  "]
NUMBERS = ["0", "7", "42", "1234567", "3.14159", "1,000,000", "0x1F", "٣٤٥", "²³", "१२३४", "2026-01-31", "1e-5", "Ⅻ"]
CODE = ["for (int i = 0; i < n; ++i) {", "}", "def f(x):\n    return x**2", "a->b", "//", "\"quoted\\n\"",
        "#include <x>", "SELECT * FROM t;", "x != y && z", "https://example.org/a?b=c", "__init__", "[INST]", "<|user|>"]
# No "<0xE2>": as a token it is a byte that is not UTF-8, for which warptune decodes less U+FFFD than `tokenizers`.
EDGES = ["<s>", "</s>", "<unk>", "<0x0A>", "▁", "▁▁a", "Ġ", "Ċ", "ï»¿", "\ufeff", "\u0000", "\u0001", "\ufffd",
         "\u0301", "e\u0301", "<|eot_id|>", "<|begin_of_text|>", " <tool> ", "tool", "tooling", "<wide>", "  <wide>  ",
         "wide<wide>", "'S", "'ſ", "''", "\ud7ff", "\ue000", "a" * 40, "ab" * 30, "=" * 37, " " * 33]


def any_character(rng):
    """One of Unicode 3.2: libraries differ in what is a letter among newer ones."""
    while True:
        begin, end = rng.choice([(0x20, 0x250), (0x250, 0xd800), (0xe000, 0x30000)])
        character = chr(rng.randrange(begin, end))
        if unicodedata.ucd_3_2_0.category(character) != "Cn":
            return character


def make_line(rng):
    kinds = [WORDS] * 5 + [ACCENTS, CJK, EMOJI, SPACES, NUMBERS, CODE, EDGES]
    parts = []
    for _ in range(rng.choice([1, 1, 2, 3, 4, 6, 9, 14])):
        parts.append(rng.choice(rng.choice(kinds)))
        if rng.random() < 0.6:
            parts.append(rng.choice(SPACES) if rng.random() < 0.2 else " ")
        if rng.random() < 0.05:
            parts.append(any_character(rng))
    line = "".join(parts)
    return line if rng.random() < 0.3 else line.strip(" ") or "x"


def corpus(seed, lines):
    rng = random.Random(seed)
    return [make_line(rng) for _ in range(lines)]


ADDED = [AddedToken("<tool>", lstrip=True, rstrip=True, normalized=False),
         AddedToken("tool", single_word=True, normalized=False),
         AddedToken("<wide>", rstrip=True, normalized=True), AddedToken("naïve café", normalized=True)]


def train(tokenizer, texts, vocab, special, alphabet=(), characters=256):
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=special, initial_alphabet=list(alphabet),
                                  limit_alphabet=characters, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)


def llama2(texts, vocab, metaspace):
    """BPE with byte fallback over a text with '▁' for blanks: a normalizer, or the newer pre-tokenizer Metaspace."""
    ends = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    train(tokenizer, texts, vocab, ends + [f"<0x{b:02X}>" for b in range(256)], characters=90)
    parts = json.loads(tokenizer.to_str())
    parts["added_tokens"] = [t for t in parts["added_tokens"] if t["content"] in ends]
    tokenizer = Tokenizer.from_str(json.dumps(parts))
    blanks = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.pre_tokenizer = None
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(blanks)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_tokens(ADDED)
    return tokenizer


def llama3(texts, vocab):
    """Byte-level BPE: the pattern of LLaMA 3, and a word of the vocabulary needs no merges."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(tokenizer, texts, vocab, [], pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)])])
    tokenizer.add_tokens(ADDED)
    return tokenizer


def gpt2(texts, vocab):
    """Byte-level BPE as small LLaMAs have it: single digits and the pattern of GPT-2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    train(tokenizer, texts, vocab, ["<|endoftext|>"], pre_tokenizers.ByteLevel.alphabet())
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_cases(folder, cases):
    with open(folder / "cases.jsonl", "w") as out:
        for text, ids, decoded in cases:
            case = [text, ids] if decoded == text else [text, ids, decoded]
            out.write(json.dumps(case, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_json_tokenizer(folder, tokenizer, texts):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False,
                                                      separators=(",", ":")))
    ids = [tokenizer.encode(text).ids for text in texts]
    write_cases(folder, [[t, i, tokenizer.decode(i)] for t, i in zip(texts, ids)])


def write_sentencepiece(folder, texts, training, vocab):
    """As LLaMA 2's tokenizer.model: BPE, byte fallback, no normalization, every blank kept."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "tokenizer.model", "wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(training), model_writer=out, vocab_size=vocab, model_type="bpe",
            byte_fallback=True, split_digits=True, normalization_rule_name="identity", add_dummy_prefix=True,
            remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, minloglevel=2,
            character_coverage=0.98)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    # The library does not look for special tokens in a text; warptune does.
    plain = [t for t in texts if not any(name in t for name in ("<s>", "</s>", "<unk>"))]
    write_cases(folder, [[t, [processor.bos_id()] + processor.encode(t), processor.decode(processor.encode(t))]
                         for t in plain])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="tests/data/tokenizers", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=0, help="tokens above the smallest vocabularies (default 250)")
    args = parser.parse_args()
    more = args.vocab or 250
    training, texts = corpus(args.seed + 1000, 4000), corpus(args.seed, args.lines)
    write_json_tokenizer(args.folder / "llama2", llama2(training, 400 + more, False), texts)
    write_json_tokenizer(args.folder / "metaspace", llama2(training, 300 + more, True), texts)
    write_json_tokenizer(args.folder / "llama3", llama3(training, 300 + more), texts)
    write_json_tokenizer(args.folder / "gpt2", gpt2(training, 300 + more), texts)
    write_sentencepiece(args.folder / "sentencepiece", texts, [t for t in training if "\0" not in t], 600 + more)


if __name__ == "__main__":
    main()
