// The tokenizers make the ids and the texts that the libraries `tokenizers` and `sentencepiece` make
// (scripts/make_tokenizers.py).
#include "harness/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/json.h"
#include "harness/text/text_stream.h"
#include "harness/text/unicode.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

/// WARPTUNE_TEST_TOKENIZERS names another folder that the script has written.
fs::path tokenizers() {
  const char* other = std::getenv("WARPTUNE_TEST_TOKENIZERS");
  return other ? fs::path(other) : fs::path(TEST_DATA) / "tokenizers";
}

struct Case {
  std::string text;
  std::vector<int> ids;
  std::string decoded;
};

std::vector<Case> cases_of(const fs::path& folder) {
  std::ifstream in(folder / "cases.jsonl");
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back({json.at(0), json.at(1), json.at(json.size() - 1 == 2 ? 2 : 0)});
  }
  return cases;
}

class Tokenizers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#ifndef WARPTUNE_HAS_SENTENCEPIECE
    if (GetParam() == std::string("sentencepiece")) GTEST_SKIP() << "this build has no SentencePiece";
#endif
    tokenizer_ = load_tokenizer(tokenizers() / GetParam());
    cases_ = cases_of(tokenizers() / GetParam());
    ASSERT_GE(cases_.size(), 100u);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Case> cases_;
};

TEST_P(Tokenizers, EncodeAsTheLibrary) {
  for (const Case& c : cases_)
    EXPECT_EQ(tokenizer_->encode(c.text, SpecialTokens::add), c.ids) << printable(c.text);
}

TEST_P(Tokenizers, DecodeAsTheLibrary) {
  for (const Case& c : cases_) EXPECT_EQ(decode(*tokenizer_, c.ids), c.decoded) << printable(c.text);
}

TEST_P(Tokenizers, StreamOnlyWholeCharacters) {
  for (const Case& c : cases_) {
    TextStream stream(*tokenizer_, {});
    std::string text;
    for (const int id : c.ids) {
      const std::string part = stream.push(id);
      EXPECT_EQ(valid_utf8_bytes(part), part.size()) << printable(c.text);
      text += part;
    }
    EXPECT_EQ(text + stream.finish(), c.decoded);
  }
}

TEST_P(Tokenizers, AnyIdsAreText) {
  for (std::size_t i = 0; i + 1 < cases_.size(); ++i) {
    std::vector<int> mixed = {-1, 1 << 20};  // in no vocabulary
    for (std::size_t j = 0; j < cases_[i].ids.size(); ++j)
      mixed.push_back(cases_[i + 1].ids[(7 * j + i) % cases_[i + 1].ids.size()]);
    const std::string text = decode(*tokenizer_, mixed);
    EXPECT_EQ(valid_utf8_bytes(text), text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Tokenizers,
                         ::testing::Values("llama2", "llama3", "metaspace", "gpt2", "sentencepiece"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LoadTokenizer, SaysWhatIsMissing) {
  const fs::path folder = fs::path(::testing::TempDir()) / "no_tokenizer";
  fs::create_directories(folder);
  try {
    load_tokenizer(folder);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()),
              "'" + folder.string() + "' has no tokenizer: neither tokenizer.json nor tokenizer.model");
  }
}

TEST(LoadTokenizer, RefusesADamagedModelOfSentencePiece) {
  const fs::path folder = fs::path(::testing::TempDir()) / "damaged_model";
  fs::create_directories(folder);
  std::ofstream(folder / "tokenizer.model") << "this is no model";
  EXPECT_THROW(load_tokenizer(folder), InputError);
  std::ofstream(folder / "tokenizer.model") << "version https://git-lfs.github.com/spec/v1\n";
  try {
    load_tokenizer(folder);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()),
              (folder / "tokenizer.model").string() +
                  ": this is a Git LFS pointer; 'git lfs pull' fetches the file itself");
  }
}

}  // namespace
}  // namespace warptune
