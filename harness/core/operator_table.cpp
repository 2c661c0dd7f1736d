#include "harness/core/operator_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

namespace warptune {
namespace {

using Operands = std::span<const double>;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kAnyNumber = 256;

double finite(double value) { return std::isfinite(value) ? value : kNoNumber; }

/// A function of <cmath>.
template <double (*function)(double)>
double unary(Operands v) {
  return finite(function(v[0]));
}

template <class Operator>
double arithmetic(Operands v) {
  return finite(Operator()(v[0], v[1]));
}

template <class Compare>
double comparison(Operands v) {
  return std::isunordered(v[0], v[1]) ? kNoNumber : Compare()(v[0], v[1]);
}

double logical_and(Operands v) {
  if (v[0] == 0) return 0;
  return std::isunordered(v[0], v[1]) ? kNoNumber : v[1] != 0;
}

double logical_or(Operands v) {
  if (!std::isnan(v[0]) && v[0] != 0) return 1;
  return std::isunordered(v[0], v[1]) ? kNoNumber : v[1] != 0;
}

double logical_not(Operands v) { return std::isnan(v[0]) ? v[0] : v[0] == 0; }
double negative(Operands v) { return -v[0]; }
double same(Operands v) { return v[0]; }

double if_else(Operands v) {
  if (std::isnan(v[0])) return kNoNumber;
  return v[0] != 0 ? v[1] : v[2];
}

bool any_nan(Operands v) {
  return std::ranges::any_of(v, [](double value) { return std::isnan(value); });
}

/// Whether the first value is one of the others.
double is_in(Operands v) { return any_nan(v) ? kNoNumber : std::ranges::find(v.subspan(1), v[0]) != v.end(); }
double is_not_in(Operands v) { return logical_not(std::array{is_in(v)}); }

double remainder(Operands v) { return finite(std::fmod(v[0], v[1])); }
double floor_div(Operands v) { return finite(std::floor(v[0] / v[1])); }
double ceil_div(Operands v) { return finite(std::ceil(v[0] / v[1])); }
/// std::pow(NaN, 0) and std::pow(1, NaN) are 1.
double power(Operands v) { return any_nan(v) ? kNoNumber : finite(std::pow(v[0], v[1])); }

double sign(Operands v) { return std::isnan(v[0]) ? v[0] : (v[0] > 0) - (v[0] < 0); }
double rint(Operands v) { return finite(std::floor(v[0] + 0.5)); }
double inverse_tangent(Operands v) { return finite(std::atan2(v[0], v[1])); }

/// NaN unless all are integers that an int64 holds exactly, and none is negative.
double greatest_common_divisor(Operands v) {
  constexpr double kLargest = 9007199254740992;
  std::int64_t divisor = 0;
  for (const double value : v) {
    if (!(value >= 0 && value <= kLargest && value == std::floor(value))) return kNoNumber;
    divisor = std::gcd(divisor, static_cast<std::int64_t>(value));
  }
  return static_cast<double>(divisor);
}

double sum(Operands v) { return finite(std::accumulate(v.begin(), v.end(), 0.0)); }
double average(Operands v) { return finite(sum(v) / static_cast<double>(v.size())); }
double smallest(Operands v) { return any_nan(v) ? kNoNumber : *std::ranges::min_element(v); }
double largest(Operands v) { return any_nan(v) ? kNoNumber : *std::ranges::max_element(v); }

using enum Operator::Form;

constexpr Operator kOperators[] = {
    {"?", conditional, 1, 3, 3, if_else},
    {"||", infix, 2, 2, 2, logical_or, "or"},
    {"&&", infix, 3, 2, 2, logical_and, "and"},
    {"not", prefix, 4, 1, 1, logical_not},
    {"<", infix, 5, 2, 2, comparison<std::less<>>},
    {"<=", infix, 5, 2, 2, comparison<std::less_equal<>>},
    {">", infix, 5, 2, 2, comparison<std::greater<>>},
    {">=", infix, 5, 2, 2, comparison<std::greater_equal<>>},
    {"==", infix, 5, 2, 2, comparison<std::equal_to<>>},
    {"!=", infix, 5, 2, 2, comparison<std::not_equal_to<>>},
    {"in", membership, 5, 2, kAnyNumber, is_in},
    {"not in", membership, 5, 2, kAnyNumber, is_not_in},
    {"+", infix, 6, 2, 2, arithmetic<std::plus<>>},
    {"-", infix, 6, 2, 2, arithmetic<std::minus<>>},
    {"*", infix, 7, 2, 2, arithmetic<std::multiplies<>>},
    {"/", infix, 7, 2, 2, arithmetic<std::divides<>>},
    {"//", infix, 7, 2, 2, floor_div},
    {"%", infix, 7, 2, 2, remainder},
    {"-", prefix, 8, 1, 1, negative},
    {"+", prefix, 8, 1, 1, same},
    {"!", prefix, 8, 1, 1, logical_not},
    {"^", right_infix, 9, 2, 2, power, "**"},
    {"ceil_div", function, 0, 2, 2, ceil_div},
    {"gcd", function, 0, 2, kAnyNumber, greatest_common_divisor},
    {"min", function, 0, 1, kAnyNumber, smallest},
    {"max", function, 0, 1, kAnyNumber, largest},
    {"sum", function, 0, 1, kAnyNumber, sum},
    {"avg", function, 0, 1, kAnyNumber, average},
    {"floor", function, 0, 1, 1, unary<std::floor>},
    {"ceil", function, 0, 1, 1, unary<std::ceil>},
    {"rint", function, 0, 1, 1, rint},
    {"abs", function, 0, 1, 1, unary<std::fabs>},
    {"sign", function, 0, 1, 1, sign},
    {"sqrt", function, 0, 1, 1, unary<std::sqrt>},
    {"cbrt", function, 0, 1, 1, unary<std::cbrt>},
    {"exp", function, 0, 1, 1, unary<std::exp>},
    {"log", function, 0, 1, 1, unary<std::log>, "ln"},
    {"log2", function, 0, 1, 1, unary<std::log2>},
    {"log10", function, 0, 1, 1, unary<std::log10>},
    {"sin", function, 0, 1, 1, unary<std::sin>},
    {"cos", function, 0, 1, 1, unary<std::cos>},
    {"tan", function, 0, 1, 1, unary<std::tan>},
    {"asin", function, 0, 1, 1, unary<std::asin>},
    {"acos", function, 0, 1, 1, unary<std::acos>},
    {"atan", function, 0, 1, 1, unary<std::atan>},
    {"sinh", function, 0, 1, 1, unary<std::sinh>},
    {"cosh", function, 0, 1, 1, unary<std::cosh>},
    {"tanh", function, 0, 1, 1, unary<std::tanh>},
    {"asinh", function, 0, 1, 1, unary<std::asinh>},
    {"acosh", function, 0, 1, 1, unary<std::acosh>},
    {"atanh", function, 0, 1, 1, unary<std::atanh>},
    {"atan2", function, 0, 2, 2, inverse_tangent},
};

const Operator* find(std::string_view name, auto&& takes) {
  const auto it = std::ranges::find_if(kOperators, [&](const Operator& op) {
    return takes(op) && (op.name == name || (!op.alias.empty() && op.alias == name));
  });
  return it == std::end(kOperators) ? nullptr : it;
}

}  // namespace

std::span<const Operator> operator_table() { return kOperators; }

const Operator* find_operator(std::string_view name, bool is_prefix) {
  return find(name, [&](const Operator& op) {
    return op.form != Operator::Form::function && (op.form == prefix) == is_prefix;
  });
}

const Operator* find_function(std::string_view name) {
  return find(name, [](const Operator& op) { return op.form == Operator::Form::function; });
}

}  // namespace warptune
