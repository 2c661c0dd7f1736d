#include "core/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <cmath>

#include "core/error.h"

namespace warptune {

struct Expression::State {
  std::string text;
  std::vector<std::string> names;
  std::vector<double> values;
  mu::Parser parser;
};

Expression::Expression(std::string text, std::vector<std::string> variables)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.text = std::move(text);
  s.names = std::move(variables);
  s.values.assign(s.names.size(), 1.0);
  try {
    s.parser.DefineOprt(
        "%", [](double a, double b) { return b == 0 ? 1.0 : std::fmod(a, b); }, mu::prMUL_DIV);
    s.parser.DefineInfixOprt("!", [](double a) { return a == 0 ? 1.0 : 0.0; });
    s.parser.DefineConst("true", 1);
    s.parser.DefineConst("false", 0);
    for (std::size_t i = 0; i < s.names.size(); ++i) s.parser.DefineVar(s.names[i], &s.values[i]);
    s.parser.SetExpr(s.text);
    s.parser.Eval();
  } catch (const mu::Parser::exception_type& e) {
    if (e.GetCode() == mu::ecUNASSIGNABLE_TOKEN)
      throw InputError(fmt::format("unknown name '{}' at position {} of constraint '{}'; it may use {}",
                                   e.GetToken(), e.GetPos() + 1, s.text, fmt::join(s.names, ", ")));
    throw InputError(
        fmt::format("constraint '{}' is wrong at position {}: {}", s.text, e.GetPos() + 1, e.GetMsg()));
  }
}

Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
const std::string& Expression::text() const { return state_->text; }

double Expression::evaluate(const std::vector<double>& values) const {
  state_->values = values;
  return state_->parser.Eval();
}

}  // namespace warptune
