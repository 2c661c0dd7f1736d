#include <gtest/gtest.h>

#include <fstream>

#include "harness/core/error.h"
#include "harness/text/text_process.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

template <class Work>
std::string refusal(Work&& work) {
  try {
    work();
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string refusal_of(const std::string& text) {
  return refusal([&] { check_text({text, "p:1"}); });
}

TEST(TextPrompts, AreUtf8) {
  EXPECT_EQ(refusal_of("one two"), "accepted");
  EXPECT_EQ(refusal_of("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf"), "accepted");
  EXPECT_EQ(refusal_of(""), "p:1: the text is empty; it must have at least one character");
  EXPECT_EQ(refusal_of("ab\xff"), "p:1: byte 3 is 0xff; a text must be UTF-8");
  for (const std::string broken :
       {"\x80", "\xc0\x80", "\xc3", "\xc3(", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_NE(refusal_of(broken), "accepted") << broken;
}

TEST(TextPrompts, HaveIdsOfTheVocabulary) {
  const auto of_ids = [](const std::vector<int>& ids) {
    return refusal([&] { check_ids(ids, {"x", "p:4"}, 2); });
  };
  EXPECT_EQ(of_ids({0, 1}), "accepted");
  EXPECT_EQ(of_ids({}), "p:4: the tokenizer makes no token of the prompt");
  EXPECT_EQ(of_ids({1, 2, 0}),
            "p:4: the tokenizer makes token 2 of the prompt; the vocabulary of the model has 2");
}

TEST(TextPrompts, AreTheLinesOfAFile) {
  const fs::path file = fs::path(::testing::TempDir()) / "prompts.txt";
  std::ofstream(file) << "one\r\ntwo words\n";
  const auto prompts = read_text_prompts(file);
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "two words");
  EXPECT_EQ(prompts[1].origin, file.string() + ":2");
  std::ofstream(file) << "one\n\ntwo\n";
  EXPECT_THROW(read_text_prompts(file), InputError) << "an empty line";
  std::ofstream(file) << "";
  EXPECT_THROW(read_text_prompts(file), InputError) << "no line";
}

}  // namespace
}  // namespace warptune
