#include "harness/core/pattern.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

TEST(Pattern, MatchesAllOrAPart) {
  const Pattern pattern("linear/(gemv|host.*)", "--filter");
  EXPECT_TRUE(pattern.matches("linear/host_naive"));
  EXPECT_FALSE(pattern.matches("linear/gemv_split_k"));
  EXPECT_TRUE(pattern.is_in("linear/gemv_split_k"));
  EXPECT_FALSE(pattern.is_in("rms_norm/naive"));
  EXPECT_TRUE(Pattern("", "--filter").is_in("anything"));
}

TEST(Pattern, NestedRepetitionsTakeLinearTime) {
  const std::string text(1'000'000, 'a');  // a backtracking engine takes longer than the universe is old
  EXPECT_FALSE(Pattern("(a*)*b", "--filter").matches(text));
  EXPECT_FALSE(Pattern("((a+)+)+b", "--filter").is_in(text));
}

TEST(Pattern, WrongOnesAreNamed) {
  const auto error_of = [](const std::string& text) {
    try {
      Pattern(text, "--filter");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of("a("), "--filter 'a(' is not a regular expression: missing ): a(");
  EXPECT_NE(error_of("(a)\\1").find("is not a regular expression"), std::string::npos);
  EXPECT_NE(error_of("\xff").find("'\\xff' is not a regular expression"), std::string::npos);
  EXPECT_NE(error_of("((a{100}){100}){100}").find("is not a regular expression"), std::string::npos);
  EXPECT_NE(error_of(std::string(1001, 'a')).find("at most 1000 bytes"), std::string::npos);
}

}  // namespace
}  // namespace warptune
