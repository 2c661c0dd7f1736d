#include "harness/core/brief.h"

#include <gtest/gtest.h>

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

TEST(DidYouMean, SuggestsTheNearestNameOrListsAll) {
  const std::vector<std::string> known = {"fp32", "fp16", "bf16"};
  EXPECT_EQ(did_you_mean("bf61", known), "; did you mean 'bf16'?");
  EXPECT_EQ(did_you_mean("complex", known), "; known are fp32, fp16, bf16");
  EXPECT_EQ(did_you_mean("x", {}, "it has"), "; it has none");
  EXPECT_EQ(near_miss("complex", known), "");
}

}  // namespace
}  // namespace warptune
