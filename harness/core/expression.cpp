#include "harness/core/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muParser.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <regex>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

double finite(double value) { return std::isfinite(value) ? value : kNoNumber; }

/// A function of <cmath>; NaN where its result is not finite.
template <double (*function)(double)>
double unary(double a) {
  return finite(function(a));
}

template <class Operator>
double arithmetic(double a, double b) {
  return finite(Operator()(a, b));
}

template <class Compare>
double comparison(double a, double b) {
  return std::isunordered(a, b) ? kNoNumber : Compare()(a, b);
}

double logical_and(double a, double b) {
  if (a == 0) return 0;
  return std::isunordered(a, b) ? kNoNumber : b != 0;
}

double logical_or(double a, double b) {
  if (!std::isnan(a) && a != 0) return 1;
  return std::isunordered(a, b) ? kNoNumber : b != 0;
}

double logical_not(double a) { return std::isnan(a) ? a : a == 0; }

double if_else(double condition, double a, double b) {
  if (std::isnan(condition)) return kNoNumber;
  return condition != 0 ? a : b;
}

double remainder(double a, double b) { return finite(std::fmod(a, b)); }
/// std::pow(NaN, 0) and std::pow(1, NaN) are 1.
double power(double a, double b) { return std::isunordered(a, b) ? kNoNumber : finite(std::pow(a, b)); }

double sign(double a) { return std::isnan(a) ? a : (a > 0) - (a < 0); }
double rint(double a) { return finite(std::floor(a + 0.5)); }
double inverse_tangent(double a, double b) { return finite(std::atan2(a, b)); }
double ceil_div(double a, double b) { return finite(std::ceil(a / b)); }

double sum(const double* values, int count) { return finite(std::accumulate(values, values + count, 0.0)); }
double average(const double* values, int count) { return sum(values, count) / count; }

/// The smallest or largest; std::fmin would skip what is no number.
template <class Before>
double first(const double* values, int count) {
  if (std::any_of(values, values + count, [](double value) { return std::isnan(value); })) return kNoNumber;
  return *std::min_element(values, values + count, Before());
}

/// The operators and functions in the place of muParser's own. The value of those is NaN where it is not a
/// number, and where an operand that counts is not: the right side of `&&` and `||`, and the branches, may be
/// left out.
void define_operators(mu::Parser& p) {
  p.EnableBuiltInOprt(false);  // but parentheses, commas and `?:`
  const auto define = [&](const char* name, double (*function)(double, double), int precedence,
                          mu::EOprtAssociativity associativity = mu::oaLEFT) {
    p.DefineOprt(name, function, static_cast<unsigned>(precedence), associativity, true);
  };
  define("||", logical_or, mu::prLOR);
  define("&&", logical_and, mu::prLAND);
  define("<", comparison<std::less<>>, mu::prCMP);
  define(">", comparison<std::greater<>>, mu::prCMP);
  define("<=", comparison<std::less_equal<>>, mu::prCMP);
  define(">=", comparison<std::greater_equal<>>, mu::prCMP);
  define("==", comparison<std::equal_to<>>, mu::prCMP);
  define("!=", comparison<std::not_equal_to<>>, mu::prCMP);
  define("+", arithmetic<std::plus<>>, mu::prADD_SUB);
  define("-", arithmetic<std::minus<>>, mu::prADD_SUB);
  define("*", arithmetic<std::multiplies<>>, mu::prMUL_DIV);
  define("/", arithmetic<std::divides<>>, mu::prMUL_DIV);
  define("%", remainder, mu::prMUL_DIV);
  define("^", power, mu::prPOW, mu::oaRIGHT);
  p.DefineInfixOprt("!", logical_not);
}

void define_functions(mu::Parser& p) {
  using Unary = double (*)(double);
  const std::pair<const char*, Unary> functions[] = {
      {"sin", unary<::sin>},
      {"cos", unary<::cos>},
      {"tan", unary<::tan>},
      {"asin", unary<::asin>},
      {"acos", unary<::acos>},
      {"atan", unary<::atan>},
      {"sinh", unary<::sinh>},
      {"cosh", unary<::cosh>},
      {"tanh", unary<::tanh>},
      {"asinh", unary<::asinh>},
      {"acosh", unary<::acosh>},
      {"atanh", unary<::atanh>},
      {"log2", unary<::log2>},
      {"log10", unary<::log10>},
      {"log", unary<::log>},
      {"ln", unary<::log>},
      {"exp", unary<::exp>},
      {"sqrt", unary<::sqrt>},
      {"cbrt", unary<::cbrt>},
      {"abs", unary<::fabs>},
      {"floor", unary<::floor>},
      {"ceil", unary<::ceil>},
      {"rint", rint},
      {"sign", sign},
  };
  for (const auto& [name, function] : functions) p.DefineFun(name, function);
  p.DefineFun("atan2", inverse_tangent);
  p.DefineFun("ceil_div", ceil_div);
  p.DefineFun("if_else", if_else);
  p.DefineFun("sum", sum);
  p.DefineFun("avg", average);
  p.DefineFun("min", first<std::less<>>);
  p.DefineFun("max", first<std::greater<>>);
}

/// A valid expression with `if_else(c, a, b)` for each `c ? a : b`, since muParser takes a condition that is
/// NaN for true.
std::string conditions_as_calls(std::string_view text) {
  struct Group {             // between parentheses
    std::size_t start;       // of the last operand of a condition or function
    std::vector<bool> open;  // conditions; true: it is after its colon
  };
  std::string calls;
  std::vector<Group> groups = {{0, {}}};
  const auto close = [&] {
    calls += ')';
    groups.back().open.pop_back();
  };
  for (const char c : text) {
    Group& group = groups.back();
    if (c == '?') {
      calls.insert(group.start, "if_else(");
      group.open.push_back(false);
    } else if (c == ':') {
      while (group.open.back()) close();
      group.open.back() = true;
    } else if (c == ',' || c == ')') {
      while (!group.open.empty()) close();
    }
    calls += c == '?' || c == ':' ? ',' : c;
    if (c == '(') groups.push_back({calls.size(), {}});
    if (c == ')') groups.pop_back();
    if (c == '?' || c == ':' || c == ',') group.start = calls.size();
  }
  while (!groups.back().open.empty()) close();
  return calls;
}

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

}  // namespace

struct Expression::State {
  std::string text;
  std::vector<std::string> names;
  std::vector<double> values;
  mu::Parser parser;
};

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
    define_operators(s.parser);
    define_functions(s.parser);
    s.parser.DefineConst("true", 1);
    s.parser.DefineConst("false", 0);
    for (std::size_t i = 0; i < s.names.size(); ++i) s.parser.DefineVar(s.names[i], &s.values[i]);
    s.parser.SetExpr(s.text);
    s.parser.Eval();
    if (s.parser.GetNumResults() != 1)
      throw wrong_at(s.text.find(','), fmt::format("',' separates two {}s", kind));
    if (s.text.find('?') != std::string::npos) {
      s.parser.SetExpr(conditions_as_calls(s.text));
      s.parser.Eval();
    }
  } catch (const mu::Parser::exception_type& e) {
    // The parser puts some errors beyond the end of the text.
    const std::size_t position = std::min(static_cast<std::size_t>(std::max(e.GetPos(), 0)), s.text.size());
    const std::string token = e.GetToken();
    if (e.GetCode() == mu::ecUNASSIGNABLE_TOKEN && !token.empty() &&
        std::ispunct(static_cast<unsigned char>(token[0])))
      throw wrong_at(position, fmt::format("unexpected \"{}\"", token));
    if (e.GetCode() == mu::ecUNASSIGNABLE_TOKEN)
      throw InputError(fmt::format("unknown name '{}' at position {} of {} '{}'; it may use {}",
                                   brief(e.GetToken()), e.GetPos() + 1, kind, brief(s.text),
                                   fmt::join(s.names, ", ")));
    if (e.GetCode() == mu::ecEMPTY_EXPRESSION) throw InputError(fmt::format("a {} is empty", kind));
    // The message repeats the position.
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

double Expression::evaluate(const std::vector<double>& values) const {
  state_->values = values;
  return state_->parser.Eval();
}

}  // namespace warptune
