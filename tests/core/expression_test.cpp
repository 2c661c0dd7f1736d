#include "harness/core/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "harness/core/error.h"
#include "harness/core/operator_table.h"

namespace warptune {
namespace {

const std::vector<std::string> kNames = {"block", "vec"};
const std::vector<Variable> kVariables = {{"block"}, {"vec"}, {"epilogue", {"none", "add", "swiglu"}}};

double value(const std::string& text, double block = 256, double vec = 8) {
  return Evaluator(Expression(text), kNames)(std::array{block, vec});
}

std::string error_of(const std::string& text) {
  try {
    Expression(text).resolve(kVariables);
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
  const Evaluator e(Expression("block * 10 + vec"), kNames);
  EXPECT_EQ(e(std::array{1.0, 2.0}), 12);
  EXPECT_EQ(e(std::array{3.0, 4.0}), 34);
  EXPECT_EQ(e.used(), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(e.expression().text(), "block * 10 + vec");
}

TEST(Expression, WordsOfPython) {
  EXPECT_EQ(value("block > 100 and vec > 8 or not block == 1"), 1);
  EXPECT_EQ(value("not block == 256"), 0) << "not binds less than a comparison";
  EXPECT_EQ(value("!block == 256"), 0) << "! binds more";
  EXPECT_EQ(value("7 // 2 + -7 // 2"), -1);
  EXPECT_EQ(value("2 ** 3 ** 2"), 512);
  EXPECT_EQ(value("vec in [2, 4, 8] and block not in (64, 128)"), 1);
  EXPECT_EQ(value("vec in [block]"), 0);
  EXPECT_EQ(value("True + true + False"), 2);
}

TEST(Expression, ComparisonsChain) {
  for (const double block : {99, 100, 300, 301})
    EXPECT_EQ(value("100 <= block <= 300", block), 100 <= block && block <= 300) << block;
  EXPECT_EQ(value("1 < 3 > 2 == 2"), 1);
  EXPECT_EQ(value("(100 <= block) <= 0", 99), 1) << "parentheses make a number of it";
  EXPECT_TRUE(std::isnan(value("1 <= block < 1 / vec", 1, 0)));
  EXPECT_EQ(value("1 <= block < 1 / vec", 0, 0), 0) << "the rest does not count";
}

TEST(Expression, LabelsAreNames) {
  const auto labeled = [](const std::string& text, double epilogue) {
    const std::vector<std::string> names = {"block", "vec", "epilogue"};
    return Evaluator(Expression(text).resolve(kVariables), names)(std::array{256.0, 8.0, epilogue});
  };
  for (const double epilogue : {0, 1, 2}) {
    EXPECT_EQ(labeled("epilogue == swiglu", epilogue), epilogue == 2);
    EXPECT_EQ(labeled("'swiglu' == epilogue", epilogue), epilogue == 2);
    EXPECT_EQ(labeled("epilogue in [add, swiglu] ? 1 : 0", epilogue), epilogue != 0);
    EXPECT_EQ(labeled("epilogue != (block > 1 ? add : none)", epilogue), epilogue != 1);
  }
  EXPECT_EQ(error_of("epilogue == swigl"),
            "unknown label 'swigl' at position 13 of constraint 'epilogue == swigl'; did you mean 'swiglu'?");
  EXPECT_EQ(error_of("epilogue == sum"),
            "unknown label 'sum' at position 13 of constraint 'epilogue == sum'; "
            "'epilogue' is one of none, add, swiglu");
  EXPECT_EQ(error_of("block == swiglu"),
            "unknown name 'swiglu' at position 10 of constraint 'block == "
            "swiglu'; it may use block, vec, epilogue");
  EXPECT_EQ(error_of("block == 'swiglu'"),
            "label 'swiglu' at position 10 of constraint 'block == 'swiglu'' is "
            "compared with no parameter or dim that has labels");
  for (const char* text : {"epilogue == 2", "epilogue < 2", "epilogue in [add, 2]", "2 * epilogue"})
    EXPECT_EQ(Expression(text).label_used_as_number(kVariables), "epilogue") << text;
  EXPECT_EQ(Expression("epilogue == add && block == 2").label_used_as_number(kVariables), std::nullopt);
}

TEST(Expression, SignsAndQuotesArePrinted) {
  const auto folded = [](const char* text) {
    return Expression(text)
        .substitute([](const std::string& name) { return name == "n" ? std::optional(0.0) : std::nullopt; })
        .text();
  };
  EXPECT_EQ(folded("+z"), "+z");
  EXPECT_EQ(folded("-z"), "-z");
  EXPECT_EQ(folded("+n + z"), "z");
  EXPECT_EQ(folded("z == \"it's\" || z == 'a b'"), "z == \"it's\" || z == 'a b'");
  EXPECT_EQ(folded("z + n"), "z");
}

TEST(Expression, NumbersBeyondIntegersStayDoubles) {
  EXPECT_EQ(Expression("1e32").json().dump(), "1e+32");
  EXPECT_EQ(Expression("4.5").json().dump(), "4.5");
  EXPECT_EQ(Expression("4").json().dump(), "4");
  EXPECT_TRUE(is_exact_integer(-kLargestInteger));
  const Expression built = Expression("a") + 44404444444444444441.0 + 1.0 / 3;
  EXPECT_EQ(Expression(built.text()).json(), built.json()) << built.text();
  for (const double value :
       {0.5, 1e16, -1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE(is_exact_integer(value)) << value;
}

TEST(Expression, IsBuiltByOperators) {
  const Expression block("block"), vec("vec"), twice = 2 * block;
  EXPECT_EQ((twice % vec == 0 && !(block < 3)).text(), "2 * block % vec == 0 && !(block < 3)");
  EXPECT_EQ((block - (vec - 1)).text(), "block - (vec - 1)");
  EXPECT_EQ(if_else(block > vec, ceil_div(block, vec), 0).text(), "block > vec ? ceil_div(block, vec) : 0");
  EXPECT_EQ((Expression("epilogue") == "add").resolve(kVariables).json().dump(), R"(["==","epilogue",1])");
}

/// What is printed parses to the same tree.
TEST(Expression, PrintsWhatItIs) {
  for (const char* text : {"1 + 2 - 3",
                           "1 - (2 - 3)",
                           "2 ^ 3 ^ 2",
                           "(2 ^ 3) ^ 2",
                           "-2 ^ 2",
                           "(-2) ^ 2",
                           "!(a && b) || c",
                           "!a == b",
                           "not a == b",
                           "(not a) == b",
                           "a ? b : c ? d : e",
                           "(a ? b : c) ? d : e",
                           "a in [1, b + 2, 3]",
                           "not (a in [1])",
                           "a not in [1]",
                           "1 < a <= 3",
                           "(1 < a) < 2",
                           "min(a, b) / (c * d)",
                           "a // b % c",
                           "a - -b",
                           "0.1 + 1e-05 + 1e+20",
                           "a == 'two words'",
                           "in % 2 == 0 && in in [2, 4]"}) {
    const Expression e(text);
    const Expression printed = e.substitute([](const std::string&) { return std::nullopt; });
    const auto folded = [](const Expression& x) {
      return x.substitute([](const std::string&) { return std::nullopt; }).json();
    };
    EXPECT_EQ(folded(Expression(printed.text())), folded(e)) << text << " printed " << printed.text();
  }
}

TEST(Expression, Substitutes) {
  const auto with = [](const std::string& text) {
    return Expression(text)
        .substitute([](const std::string& name) -> std::optional<Expression> {
          if (name == "block") return 256;
          if (name == "derived") return Expression("rows * 2");
          return std::nullopt;
        })
        .text();
  };
  EXPECT_EQ(with("ceil_div(rows, block / 2)"), "ceil_div(rows, 128)");
  EXPECT_EQ(with("derived * 1 + 0"), "rows * 2");
  EXPECT_EQ(with("block > 1 ? derived : 0"), "rows * 2");
  EXPECT_EQ(with("block % 3 + 1 / 0"), "1 + 1 / 0") << "what is not a number stays";
}

TEST(Expression, EveryOperatorIsNotANumberWhereAnArgumentIs) {
  const double nan = std::nan("");
  for (const Operator& op : operator_table()) {
    const std::vector<double> values(std::max<std::size_t>(op.least_arguments, 1), nan);
    EXPECT_TRUE(std::isnan(op.evaluate(values))) << op.name;
  }
}

TEST(Expression, HostileTextsAreRefused) {
  EXPECT_NE(error_of(std::string(300, '(')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of(std::string(5000, '-') + "1").find("nested too deeply"), std::string::npos);
  EXPECT_EQ(error_of(std::string(20000, '1')),
            "a constraint of 20000 characters is too long; at most 10000 are possible");
  std::string sum = "1", list = "max(1";
  for (int i = 0; i < 2000; ++i) sum += " + 1";
  for (int i = 0; i < 300; ++i) list += ",1";
  EXPECT_EQ(value(sum), 2001);
  EXPECT_NE(error_of(list + ")"), "no error");
  EXPECT_NE(error_of("1e999"), "no error");
  EXPECT_NE(error_of("epilogue == 'add"), "no error");
}

TEST(Expression, ErrorsPointIntoTheText) {
  EXPECT_EQ(error_of("block % blok"),
            "unknown name 'blok' at position 9 of constraint 'block % blok'; did you mean 'block'?");
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
  EXPECT_EQ(error_of("block +* 2"), "constraint 'block +* 2' is wrong at position 8: unexpected \"*\"");
  EXPECT_EQ(error_of("block & 2"), "constraint 'block & 2' is wrong at position 7: unexpected \"&\"");
  EXPECT_EQ(error_of("block ? 1"), "constraint 'block ? 1' is wrong at position 10: ':' is missing");
  EXPECT_EQ(error_of("block : 1"), "constraint 'block : 1' is wrong at position 7: unexpected \":\"");
  EXPECT_EQ(error_of(""), "a constraint is empty");
}

/// include/warptune reads this JSON of these texts to the same values (tests/launch/formula_test.cpp). Every
/// operator is in it, as any expression may be exported.
TEST(Expression, FormulasOfLaunchesAreTheirJson) {
  std::ifstream file(TEST_DATA "/launch/formulas.json");
  std::string all;
  const std::vector<std::string> names = {"tokens", "rows"};
  for (const auto& formula : nlohmann::json::parse(file)) {
    const Expression e(formula["text"].get<std::string>());
    EXPECT_EQ(e.json(), formula["json"]) << e.text();
    all += formula["json"].dump();
    EXPECT_EQ(Evaluator(e, names)(std::array{7.0, 8.0}), formula["is"].get<double>()) << e.text();
  }
  for (const Operator& op : operator_table())
    EXPECT_NE(all.find(fmt::format("[\"{}\"", op.name)), std::string::npos) << op.name;
}

/// docs/expressions.md has a row for every operator and function, whose example has the value that it says.
TEST(Expression, TheTableOfTheDocsIsThatOfTheParser) {
  std::ifstream page(SOURCE_ROOT "/docs/expressions.md");
  std::set<std::string> missing;
  for (const Operator& op : operator_table()) missing.insert(std::string(op.name));
  int examples = 0;
  const std::regex row(R"(\| `(.+?)`(?:, `(.+?)`)? \| .* \| `(.+)` is (\S+) \|)");
  for (std::string line; std::getline(page, line);) {
    std::smatch m;
    if (line = std::regex_replace(line, std::regex(R"(\\\|)"), "|"); !std::regex_match(line, m, row))
      continue;
    missing.erase(m[1]);
    const bool same_alias = std::ranges::any_of(operator_table(), [&](const Operator& op) {
      return op.name == m[1].str() && op.alias == m[2].str();
    });
    EXPECT_TRUE(same_alias) << line;
    const double wanted = std::stod(m[4]);
    EXPECT_NEAR(value(m[3]), wanted, 1e-6) << line;
    ++examples;
  }
  EXPECT_TRUE(missing.empty()) << fmt::format("{}", fmt::join(missing, " "));
  EXPECT_GE(examples, static_cast<int>(operator_table().size()) - 2) << "- and ! are prefix operators, too";
}

}  // namespace
}  // namespace warptune
