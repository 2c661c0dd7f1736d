#include "harness/core/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

using Binary = double (*)(double, double);

struct Expression::State {
  std::string text;
  std::vector<std::string> names;
  std::vector<double> values;
  mu::Parser parser;

  void prepare(mu::Parser& p, Binary remainder) {
    p.DefineOprt("%", remainder, mu::prMUL_DIV);
    p.DefineInfixOprt("!", [](double a) { return a == 0 ? 1.0 : 0.0; });
    p.DefineFun("ceil", [](double a) { return std::ceil(a); });
    p.DefineFun("floor", [](double a) { return std::floor(a); });
    p.DefineFun("ceil_div", [](double a, double b) { return std::ceil(a / b); });
    p.DefineConst("true", 1);
    p.DefineConst("false", 0);
    for (std::size_t i = 0; i < names.size(); ++i) p.DefineVar(names[i], &values[i]);
    p.SetExpr(text);
  }
};

namespace {

/// The first '=' that is not part of a comparison: muParser would assign there.
std::size_t assignment_in(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '=') continue;
    if (i + 1 < text.size() && text[i + 1] == '=')
      ++i;
    else if (i == 0 || std::string("<>!").find(text[i - 1]) == std::string::npos)
      return i;
  }
  return std::string::npos;
}

struct DivisionByZero {};

}  // namespace

Expression::Expression(std::string text, std::vector<std::string> variables, std::string_view kind)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.text = std::move(text);
  s.names = std::move(variables);
  s.values.assign(s.names.size(), 1.0);
  const auto wrong_at = [&](std::size_t position, std::string_view why) {
    return InputError(
        fmt::format("{} '{}' is wrong at position {}: {}", kind, brief(s.text), position + 1, brief(why)));
  };
  if (const auto position = assignment_in(s.text); position != std::string::npos)
    throw wrong_at(position, "'=' assigns; '==' compares");
  try {
    s.prepare(s.parser, [](double a, double b) { return b == 0 ? 1.0 : std::fmod(a, b); });
    s.parser.Eval();
    if (s.parser.GetNumResults() != 1)
      throw wrong_at(s.text.find(','), fmt::format("',' separates two {}s", kind));
  } catch (const mu::Parser::exception_type& e) {
    if (e.GetCode() == mu::ecUNASSIGNABLE_TOKEN)
      throw InputError(fmt::format("unknown name '{}' at position {} of {} '{}'; it may use {}",
                                   brief(e.GetToken()), e.GetPos() + 1, kind, brief(s.text),
                                   fmt::join(s.names, ", ")));
    if (e.GetCode() == mu::ecEMPTY_EXPRESSION) throw InputError(fmt::format("a {} is empty", kind));
    // The parser puts some errors beyond the end of the text, and its message repeats the position.
    const std::size_t position = std::min(static_cast<std::size_t>(std::max(e.GetPos(), 0)), s.text.size());
    std::string why = std::regex_replace(e.GetMsg(), std::regex(R"(( found)? at position \d+\.?)"), "");
    if (!why.empty()) why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
    throw wrong_at(position, why);
  }
}

Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;
const std::string& Expression::text() const { return state_->text; }

std::vector<std::size_t> Expression::used_variables() const {
  std::vector<std::size_t> indices;
  for (const auto& [name, value] : state_->parser.GetUsedVar())
    indices.push_back(static_cast<std::size_t>(value - state_->values.data()));
  return indices;
}

bool Expression::takes_remainder_by_zero(const std::vector<double>& values) const {
  state_->values = values;
  mu::Parser strict;
  state_->prepare(strict,
                  [](double a, double b) { return b == 0 ? throw DivisionByZero() : std::fmod(a, b); });
  try {
    strict.Eval();
  } catch (const DivisionByZero&) {
    return true;
  }
  return false;
}

double Expression::evaluate(const std::vector<double>& values) const {
  state_->values = values;
  return state_->parser.Eval();
}

}  // namespace warptune
