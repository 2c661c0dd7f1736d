#include "harness/core/brief.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

TEST(Brief, LeavesShortTextsAsTheyAre) {
  EXPECT_EQ(brief(""), "");
  EXPECT_EQ(brief("block % vec == 0"), "block % vec == 0");
  EXPECT_EQ(brief(std::string(120, 'x')), std::string(120, 'x'));
}

TEST(Brief, SaysHowLongALongTextIs) {
  EXPECT_EQ(brief(std::string(400000, 'x')), std::string(80, 'x') + "... (400000 bytes)");
}

TEST(Brief, CutsNoCharacterInTwo) {
  std::string text(79, 'x');
  text += "\u00e9" + std::string(100, 'y');
  EXPECT_EQ(brief(text), std::string(79, 'x') + "... (181 bytes)");
}

}  // namespace
}  // namespace warptune
