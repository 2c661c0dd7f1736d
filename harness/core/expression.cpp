#include "core/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>

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
    if (e.GetCode() == mu::ecEMPTY_EXPRESSION) throw InputError("a constraint is empty");
    // The parser counts some ends of the text beyond it, and repeats the place in its sentence.
    const std::size_t place = std::min(static_cast<std::size_t>(std::max(e.GetPos(), 0)), s.text.size()) + 1;
    std::string why = std::regex_replace(e.GetMsg(), std::regex(R"(( found)? at position \d+\.?)"), "");
    if (!why.empty()) why[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(why[0])));
    throw InputError(fmt::format("constraint '{}' is wrong at position {}: {}", s.text, place, why));
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
