#include "harness/core/expression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

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

TEST(Expression, Functions) {
  EXPECT_EQ(value("ceil_div(block, 100) + ceil(0.5) + floor(1.5)"), 5);
  EXPECT_EQ(value("sum(block, vec, 1) + avg(block, vec)"), 397);
  EXPECT_EQ(value("min(block, vec, 9) + max(block, vec, 9)"), 264);
  EXPECT_EQ(value("abs(0 - vec) + sign(0 - vec) + sign(0) + sign(vec)"), 8);
  EXPECT_EQ(value("rint(2.5) + rint(2.4)"), 5);
  EXPECT_EQ(value("sqrt(block) + cbrt(vec) + log2(block) + log10(100) + exp(0)"), 29);
  EXPECT_DOUBLE_EQ(value("ln(vec) / log(2)"), 3);
  EXPECT_NEAR(value("4 * atan2(1, 1)"), 3.14159265, 1e-8);
  EXPECT_EQ(value("2 ^ 3 ^ 2 - -2 ^ 2"), 516);
}

/// Whether the value is NaN for the block given.
bool is_nan(const std::string& text, double block = 0) { return std::isnan(value(text, block)); }

TEST(Expression, WhatIsComputedFromNoNumberIsNone) {
  for (const char* part :
       {"1 / 0", "1 / block", "8 % block", "sqrt(0 - 1)", "log(block)", "block ^ (0 - 1)",
        "ceil_div(1, block)", "10 ^ 308 * 10", "(10 ^ 308 + 10 ^ 308 * 0.9)", "0 / block", "exp(1000)"})
    for (const char* around :
         {"{} > 1",        "{} < 1",           "{} == {}",    "{} != 0",     "1 <= {}",     "{} >= 0",
          "!({})",         "0 - {}",           "-({})",       "+({})",       "2 + ({})",    "({}) * 0",
          "0 / ({})",      "({}) ^ 0",         "1 ^ ({})",    "({}) % 3",    "min(1, {})",  "min({}, 1)",
          "max(2, {}, 3)", "sum(1, {})",       "avg({}, 1)",  "sign({})",    "abs({})",     "floor({})",
          "rint({})",      "atan2(0, {})",     "{} > 1 || 1", "{} > 1 && 0", "0 || {} > 1", "1 && {}",
          "{} ? 1 : 2",    "({} ? 1 : 2) > 0", "1 ? {} : 2",  "0 ? 1 : {}",  "{}"}) {
      const std::string text = fmt::format(fmt::runtime(around), part, part);
      EXPECT_TRUE(is_nan(text)) << text;
    }
}

TEST(Expression, WhatIsLeftOutNeedsNoNumber) {
  EXPECT_EQ(value("block != 0 && 8 % block == 0", 0), 0);
  EXPECT_EQ(value("block != 0 && 8 % block == 0", 4), 1);
  EXPECT_EQ(value("block == 0 || vec / block > 1", 0), 1);
  EXPECT_EQ(value("block == 0 || vec / block > 1", 8), 0);
  EXPECT_EQ(value("block == 0 ? 5 : vec / block", 0), 5);
  EXPECT_EQ(value("block > 0 ? vec / block : 6", 0), 6);
  EXPECT_EQ(value("block > 0 && (vec / block > 1 || 1 / block > 0) || 1", 0), 1);
  EXPECT_TRUE(is_nan("8 % block == 0 && block != 0")) << "from left to right";
}

TEST(Expression, ConditionsNest) {
  const std::string text =
      "max(block > 4 ? vec > 4 ? 1 : 2 : block > 2 ? 3 : (vec > 4 ? 4 : 5), vec == 0 ? 10 : 0) * 2";
  EXPECT_EQ(value(text, 5, 5), 2);
  EXPECT_EQ(value(text, 5, 4), 4);
  EXPECT_EQ(value(text, 3, 4), 6);
  EXPECT_EQ(value(text, 2, 5), 8);
  EXPECT_EQ(value(text, 2, 4), 10);
  EXPECT_EQ(value(text, 2, 0), 20);
  EXPECT_EQ(value("1 + 1 == 2 && block ? 3 : 4 + 5"), 3);
  EXPECT_EQ(value("1 + 1 == 3 || !block ? 3 : 4 + 5"), 9);
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
  EXPECT_EQ(error_of("block +* 2"), "constraint 'block +* 2' is wrong at position 8: unexpected \"* 2 \"");
  EXPECT_EQ(error_of("block & 2"), "constraint 'block & 2' is wrong at position 7: unexpected \"& 2 \"");
  EXPECT_EQ(error_of("block ? 1"),
            "constraint 'block ? 1' is wrong at position 1: if-then-else operator is missing an else clause");
  EXPECT_EQ(error_of("block : 1"), "constraint 'block : 1' is wrong at position 8: misplaced colon");
  EXPECT_EQ(error_of(""), "a constraint is empty");
}

}  // namespace
}  // namespace warptune
