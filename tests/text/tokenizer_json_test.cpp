// tokenizer.json: every part by a small one, and a sentence for each that cannot be read.
#include "harness/text/tokenizer_json.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

using Ids = std::vector<int>;

/// With `more` keys of the file and of the model. The vocabulary: a=0, b=1, ab=2, ▁=3, ▁a=4, <u>=5, <0xC3>=6,
/// <0xA9>=7, abab=8.
std::string file(const std::string& more, const std::string& model = "",
                 const std::string& merges = R"(["a b", ["▁", "a"], "ab ab"])") {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "▁": 3, "▁a": 4, "<u>": 5, "<0xC3>": 6,)"
         R"("<0xA9>": 7, "abab": 8}, "merges": )" +
         merges + model + "}, " +
         (more.find("\"decoder\"") == more.npos ? R"("decoder": {"type": "Fuse"})" : "") +
         (more.empty() || more.find("\"decoder\"") != more.npos ? "" : ", ") + more + "}";
}

Ids encode(const std::string& json, std::string_view text, SpecialTokens special = SpecialTokens::add) {
  return parse_tokenizer_json(json, "t.json")->encode(text, special);
}

std::string refusal(const std::string& json) {
  try {
    parse_tokenizer_json(json, "t.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TokenizerJson, MergesByRank) {
  EXPECT_EQ(encode(file(""), "abababb"), (Ids{8, 2, 1}));
  EXPECT_EQ(encode(file(""), "▁ab"), (Ids{3, 2})) << "'a b' has the lower rank";
  EXPECT_EQ(encode(file("", R"(, "ignore_merges": true)", "[]"), "abab"), (Ids{8}));
}

TEST(TokenizerJson, UnknownCharacters) {
  EXPECT_EQ(encode(file(""), "axxb"), (Ids{2})) << "they are dropped before any merge";
  EXPECT_EQ(encode(file("", R"(, "unk_token": "<u>")"), "axxb"), (Ids{0, 5, 5, 1}));
  EXPECT_EQ(encode(file("", R"(, "unk_token": "<u>", "fuse_unk": true)"), "axxb"), (Ids{0, 5, 1}));
  EXPECT_EQ(encode(file("", R"(, "unk_token": "<u>", "byte_fallback": true)"), "aéx"), (Ids{0, 6, 7, 5}));
}

TEST(TokenizerJson, AddedTokens) {
  const auto added = [](const std::string& options) {
    return file(R"("added_tokens": [{"id": 20, "content": "<t>", "special": true)" + options + "}]");
  };
  EXPECT_EQ(encode(added(""), "a<t>b"), (Ids{0, 20, 1}));
  EXPECT_EQ(encode(added(R"(, "single_word": true)"), "a<t>b"), (Ids{2})) << "within a word";
  EXPECT_EQ(encode(added(R"(, "single_word": true)"), "a <t>"), (Ids{0, 20}));
  const auto tokenizer = parse_tokenizer_json(added(""), "t.json");
  EXPECT_EQ(tokenizer->id_of("<t>"), 20);
  EXPECT_EQ(tokenizer->id_of("ab"), 2);
  EXPECT_EQ(tokenizer->id_of("none"), std::nullopt);
  EXPECT_EQ(tokenizer->bytes_of(20), "") << "special tokens are not text";
  EXPECT_EQ(tokenizer->bytes_of(2), "ab");
}

TEST(TokenizerJson, TheLongestAddedTokenWins) {
  EXPECT_EQ(
      encode(file(R"("added_tokens": [{"id": 20, "content": "<t"}, {"id": 21, "content": "<t>"}])"), "<t><t"),
      (Ids{21, 20}));
}

TEST(TokenizerJson, TemplatesAreAddedOnRequest) {
  const std::string json = file(
      R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B"}}, {"Sequence": {"id": "A"}},)"
      R"({"SpecialToken": {"id": "E"}}], "special_tokens": {"B": {"ids": [5]}, "E": {"ids": [6, 7]}}})");
  EXPECT_EQ(encode(json, "a"), (Ids{5, 0, 6, 7}));
  EXPECT_EQ(encode(json, "a", SpecialTokens::omit), (Ids{0}));
}

TEST(TokenizerJson, MetaspaceAtTheStartOnly) {
  const auto metaspace = [](const std::string& scheme) {
    return file(R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")" + scheme +
                R"("}, "added_tokens": [{"id": 20, "content": "<t>"}])");
  };
  EXPECT_EQ(encode(metaspace("first"), "a a<t>a"), (Ids{4, 4, 20, 0}));
  EXPECT_EQ(encode(metaspace("always"), "a<t>a"), (Ids{4, 20, 4}));
  EXPECT_EQ(encode(metaspace("never"), "a<t>a"), (Ids{0, 20, 0}));
}

TEST(TokenizerJson, WhitespaceLeavesItsLastCharacterToTheNextWord) {
  const std::string json =
      file(R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", "invert": false,)"
           R"("pattern": {"Regex": " ?a|\\s+(?!\\S)|\\s+"}})",
           R"(, "unk_token": "<u>", "fuse_unk": true)");
  EXPECT_EQ(encode(json, "a   a"), (Ids{0, 5, 5, 0})) << "two blanks, and one that stays with the word";
  EXPECT_EQ(encode(json, "a   "), (Ids{0, 5})) << "all blanks at the end";
  EXPECT_EQ(encode(json, "a\xe2\x80\x83\xe2\x80\x83x"), (Ids{0, 5, 5, 5})) << "U+2003 is whitespace";
}

TEST(TokenizerJson, RefusesWhatALlamaDoesNotHave) {
  EXPECT_EQ(refusal("[]"), "t.json: this is not a JSON object but a JSON array");
  EXPECT_EQ(refusal("{}"), "t.json: key 'model' is missing");
  EXPECT_EQ(refusal(R"({"model": {"type": "WordPiece"}})"),
            "t.json: model: 'type' is \"WordPiece\"; it must be BPE");
  EXPECT_EQ(refusal(R"({"model": {"type": "Unigram"}})"),
            "t.json: model: 'type' is \"Unigram\"; it must be BPE");
  EXPECT_EQ(refusal(R"({"model": {"vocab": {"a": -1}, "merges": []}})"),
            "t.json: model: vocab: 'a' is -1; it must be an integer from 0 to 16777216");
  EXPECT_EQ(refusal(file("", "", R"(["a b", "b zz"])")),
            "t.json: model: merge 2 is \"b zz\"; both tokens and their merge must be in the vocabulary");
  EXPECT_EQ(refusal(file("", R"(, "unk_token": "none")")),
            "t.json: model: 'unk_token' is \"none\"; it must be a token of the vocabulary");
  EXPECT_EQ(refusal(file(R"("normalizer": {"type": "NFC"})")),
            "t.json: normalizer: 'type' is \"NFC\"; it must be Prepend or Replace");
  const std::string replace = R"({"type": "Replace", "pattern": {"String": "a"}, "content": )";
  EXPECT_EQ(refusal(file("\"normalizer\": " + replace + "\"aaaaa\"}")),
            "t.json: normalizer: 'content' is \"aaaaa\"; it must be at most one character");
  std::string nine = replace + "\"\"}";
  for (int i = 1; i < 9; ++i) nine += ", " + replace + "\"\"}";
  EXPECT_EQ(refusal(file(R"("normalizer": {"type": "Sequence", "normalizers": [)" + nine + "]}")),
            "t.json: normalizer: the Sequence has 9 parts; at most 8 are possible");
  EXPECT_EQ(refusal(file(R"("pre_tokenizer": {"type": "BertPreTokenizer"})")),
            "t.json: pre_tokenizer: 'type' is \"BertPreTokenizer\"; it must be Split, ByteLevel, Metaspace "
            "or Digits");
  EXPECT_EQ(
      refusal(file(R"("post_processor": {"type": "BertProcessing"})")),
      "t.json: post_processor: 'type' is \"BertProcessing\"; it must be TemplateProcessing or ByteLevel");
  EXPECT_EQ(refusal(file(R"("decoder": {"type": "WordPiece"})")),
            "t.json: decoder: 'type' is \"WordPiece\"; it must be ByteLevel, Metaspace, Replace, "
            "ByteFallback, Fuse, or "
            "Strip after Fuse");
}

TEST(TokenizerJson, RefusesPatternsThatWouldMeanSomethingElse) {
  const auto pattern = [](const std::string& regex) {
    return refusal(
        file(R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": ")" + regex +
             R"("}})"));
  };
  EXPECT_EQ(pattern("a(?=b)"),
            "t.json: pre_tokenizer: the pattern is 'a(?=b)'; look-around, except for '|\\s+(?!\\S)|\\s+' at "
            "the end, "
            "cannot be matched");
  EXPECT_EQ(pattern("\\\\w+"), "t.json: pre_tokenizer: the pattern is '\\w+'; '\\w' cannot be matched");
  for (const char* other : {"^a", "a$", "[a[b]]", "[a&&b]", "a++", "\\\\", "(a", "[a"})
    EXPECT_NE(pattern(other), "accepted") << other;
}

}  // namespace
}  // namespace warptune
