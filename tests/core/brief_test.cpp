#include "harness/core/brief.h"

#include <gtest/gtest.h>

#include "harness/core/print.h"

namespace warptune {
namespace {

TEST(Brief, KeepsShortTexts) {
  EXPECT_EQ(brief(""), "");
  EXPECT_EQ(brief("block % vec == 0"), "block % vec == 0");
  EXPECT_EQ(brief(std::string(120, 'x')), std::string(120, 'x'));
}

TEST(Brief, ALongTextIsCutWithItsLength) {
  EXPECT_EQ(brief(std::string(400000, 'x')), std::string(80, 'x') + "... (400000 bytes)");
}

TEST(Brief, NeverSplitsACharacter) {
  std::string text(79, 'x');
  text += "\u00e9" + std::string(100, 'y');
  EXPECT_EQ(brief(text), std::string(79, 'x') + "... (181 bytes)");
}

TEST(Brief, ControlCharactersAreEscaped) {
  EXPECT_EQ(brief(std::string("a\nb\tc\x1b[31m\0d\x7f", 13)), "a\\nb\\tc\\x1b[31m\\x00d\\x7f");
  EXPECT_EQ(printable("gr\u00fcn \u20ac \U0001f600"), "gr\u00fcn \u20ac \U0001f600");
  EXPECT_EQ(printable("\xff \xc3 \xe2\x82"), "\\xff \\xc3 \\xe2\\x82") << "not UTF-8";
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "the C1 control CSI";
}

TEST(Brief, EscapesDoNotMakeALongText) { EXPECT_LE(brief(std::string(120, '\x1b')).size(), 120u); }

TEST(Message, IsOneLineOfBoundedLength) {
  EXPECT_EQ(one_line("x.yaml:2: unknown key"), "x.yaml:2: unknown key");
  EXPECT_EQ(one_line("a\nb"), "a\\nb");
  for (const std::string part : {"x", "\n", "\u00e9", "\xff"}) {
    std::string text = "x.yaml:2: ";
    for (int i = 0; i < 100000; ++i) text += part;
    const std::string line = one_line(text + "; did you mean 'vec'?");
    EXPECT_LE(line.size(), kMaxMessage);
    EXPECT_GE(line.size(), kMaxMessage - 8) << part;
    EXPECT_TRUE(line.starts_with("x.yaml:2: ")) << line;
    EXPECT_TRUE(line.ends_with("; did you mean 'vec'?")) << line;
    EXPECT_EQ(printable(line), line) << "a character is cut";
  }
}

TEST(DidYouMean, TakesLinearTimeForALongName) {
  EXPECT_EQ(near_miss(std::string(50'000'000, 'x'), std::vector<std::string>(20, "vec")), "");
}

TEST(DidYouMean, SuggestsTheNearestNameOrListsAll) {
  const std::vector<std::string> known = {"fp32", "fp16", "bf16"};
  EXPECT_EQ(did_you_mean("bf61", known), "; did you mean 'bf16'?");
  EXPECT_EQ(did_you_mean("complex", known), "; known are fp32, fp16, bf16");
  EXPECT_EQ(did_you_mean("x", {}, "it has"), "; it has none");
  EXPECT_EQ(near_miss("complex", known), "");
}

}  // namespace
}  // namespace warptune
