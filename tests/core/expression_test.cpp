#include "harness/core/expression.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

double value(const std::string& text, double block = 256, double vec = 8) {
  return Expression(text, {"block", "vec"}).evaluate({block, vec});
}

std::string error_of(const std::string& text) {
  try {
    Expression(text, {"block", "vec"});
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Expression, Operators) {
  EXPECT_EQ(value("block % 100"), 56);
  EXPECT_EQ(value("block % vec == 0"), 1);
  EXPECT_EQ(value("!(block == 256)"), 0);
  EXPECT_EQ(value("!0"), 1);
  EXPECT_EQ(value("block > 100 && vec > 8"), 0);
  EXPECT_EQ(value("block > 100 || vec > 8"), 1);
  EXPECT_EQ(value("block >= 256 ? vec : 1"), 8);
  EXPECT_EQ(value("min(block, vec) + max(block, vec)"), 264);
  EXPECT_EQ(value("true && !false"), 1);
}

TEST(Expression, Precedence) {
  EXPECT_EQ(value("2 + 3 * 4 - 6 / 2"), 11);
  EXPECT_EQ(value("7 + block % 3 * 2"), 9);    // % binds like * and /
  EXPECT_EQ(value("1 || 0 && 0"), 1);          // && before ||
  EXPECT_EQ(value("1 + 1 == 2 && 3 > 2"), 1);  // comparison before &&
}

TEST(Expression, ARemainderByZeroBreaksDivisibility) { EXPECT_EQ(value("block % (vec - 8) == 0"), 0); }

TEST(Expression, DetectsARemainderByZero) {
  const Expression e("vec == 8 || block % (vec - 9) == 0", {"block", "vec"});
  EXPECT_TRUE(e.takes_remainder_by_zero({256, 9}));
  EXPECT_FALSE(e.takes_remainder_by_zero({256, 8}));
}

TEST(Expression, TakesNewValuesEachTime) {
  const Expression e("block * 10 + vec", {"block", "vec"});
  EXPECT_EQ(e.evaluate({1, 2}), 12);
  EXPECT_EQ(e.evaluate({3, 4}), 34);
  EXPECT_EQ(e.text(), "block * 10 + vec");
}

TEST(Expression, ErrorsPointIntoTheText) {
  EXPECT_EQ(error_of("block % blok"),
            "unknown name 'blok' at position 9 of constraint 'block % blok'; it may use block, vec");
  EXPECT_EQ(error_of("block >"), "constraint 'block >' is wrong at position 8: unexpected end of expression");
  EXPECT_EQ(error_of("(block > 8"), "constraint '(block > 8' is wrong at position 11: missing parenthesis");
  EXPECT_EQ(error_of("block > 8)"),
            "constraint 'block > 8)' is wrong at position 10: unexpected parenthesis \")\"");
  EXPECT_EQ(error_of("block 8"), "constraint 'block 8' is wrong at position 7: unexpected value \"8\"");
  EXPECT_EQ(error_of("min(block, vec"),
            "constraint 'min(block, vec' is wrong at position 15: missing parenthesis");
  EXPECT_EQ(error_of("block = 5"),
            "constraint 'block = 5' is wrong at position 7: '=' assigns; '==' compares");
  EXPECT_EQ(error_of("vec <= 8 && (block=5)"),
            "constraint 'vec <= 8 && (block=5)' is wrong at position 19: '=' assigns; '==' compares");
  EXPECT_EQ(error_of("block =="),
            "constraint 'block ==' is wrong at position 9: unexpected end of expression");
  EXPECT_EQ(error_of("vec >= 1, block"),
            "constraint 'vec >= 1, block' is wrong at position 9: ',' separates two constraints");
  EXPECT_EQ(error_of(""), "a constraint is empty");
}

}  // namespace
}  // namespace warptune
