// Numbers of a launch that depend on the problem: expressions, evaluated with doubles as the program does.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "warptune/detail/json.h"

namespace warptune::detail {

/// Magnitudes of the results of formulas: a double holds all integers up to it.
inline constexpr std::int64_t kMaxMagnitude = std::int64_t{1} << 53;

/// A number, a name, or ["operator", argument, ...]. A name is known by an index. Schemas 1 and 2 have
/// objects: plus + times * the product of ceil(multiplier * value / divisor) over the factors.
class Formula {
 public:
  /// `index_of(json)` is the index of the value that a name stands for; it throws Error for an unknown name.
  template <class IndexOf>
  Formula(const Json& json, const IndexOf& index_of) : name_(json.name()), root_(node(json, index_of)) {}

  bool is_zero() const { return root_.kind == Kind::number && root_.number == 0; }

  /// `value_at(index)` is a value. The result is an integer from `least` to `most`; Error otherwise.
  template <class ValueAt>
  std::int64_t evaluate(const ValueAt& value_at, std::int64_t least, std::int64_t most) const {
    const double result = value_of(root_, value_at);
    if (!(std::abs(result) <= static_cast<double>(kMaxMagnitude)))
      throw Error("'" + name_ + "' is beyond 2^53 here");
    if (result != std::floor(result)) throw Error("'" + name_ + "' is not an integer here");
    const auto integer = static_cast<std::int64_t>(result);
    if (integer >= least && integer <= most) return integer;
    throw Error("'" + name_ + "' is " + std::to_string(integer) + " here; it must be from " +
                std::to_string(least) + " to " + std::to_string(most));
  }

 private:
  enum class Kind { number, value, call };
  using Arguments = const std::vector<double>&;
  struct Operator {
    const char* name;
    std::size_t least_arguments, most_arguments;
    double (*evaluate)(Arguments);
  };
  struct Node {
    Kind kind = Kind::number;
    double number = 0;
    std::size_t index = 0;
    const Operator* op = nullptr;
    std::vector<Node> arguments = {};
  };

  static constexpr std::size_t kMany = 256;
  static double both(Arguments v) { return v[0] != 0 && v[1] != 0; }
  static double either(Arguments v) { return v[0] != 0 || v[1] != 0; }
  static double chosen_branch(Arguments v) { return v[0] != 0 ? v[1] : v[2]; }
  static double sum(Arguments v) { return std::accumulate(v.begin(), v.end(), 0.0); }
  static double is_in(Arguments v) { return std::count(v.begin() + 1, v.end(), v[0]) > 0; }
  static double greatest_common_divisor(Arguments v) {
    std::int64_t divisor = 0;
    for (const double value : v) {
      if (!(value >= 0 && value <= static_cast<double>(kMaxMagnitude) && value == std::floor(value)))
        return std::numeric_limits<double>::quiet_NaN();
      divisor = std::gcd(divisor, static_cast<std::int64_t>(value));
    }
    return static_cast<double>(divisor);
  }
  template <double (*function)(double)>
  static double unary(Arguments v) {
    return function(v[0]);
  }

  /// The operators of docs/expressions.md.
  static const Operator* find(const std::string& name, std::size_t arguments) {
    static const Operator kOperators[] = {
        {"?", 3, 3, chosen_branch},
        {"||", 2, 2, either},
        {"&&", 2, 2, both},
        {"not", 1, 1, [](Arguments v) { return double(v[0] == 0); }},
        {"<", 2, 2, [](Arguments v) { return double(v[0] < v[1]); }},
        {"<=", 2, 2, [](Arguments v) { return double(v[0] <= v[1]); }},
        {">", 2, 2, [](Arguments v) { return double(v[0] > v[1]); }},
        {">=", 2, 2, [](Arguments v) { return double(v[0] >= v[1]); }},
        {"==", 2, 2, [](Arguments v) { return double(v[0] == v[1]); }},
        {"!=", 2, 2, [](Arguments v) { return double(v[0] != v[1]); }},
        {"in", 2, kMany, is_in},
        {"not in", 2, kMany, [](Arguments v) { return double(is_in(v) == 0); }},
        {"+", 2, 2, [](Arguments v) { return v[0] + v[1]; }},
        {"-", 2, 2, [](Arguments v) { return v[0] - v[1]; }},
        {"*", 2, 2, [](Arguments v) { return v[0] * v[1]; }},
        {"/", 2, 2, [](Arguments v) { return v[0] / v[1]; }},
        {"//", 2, 2, [](Arguments v) { return std::floor(v[0] / v[1]); }},
        {"%", 2, 2, [](Arguments v) { return std::fmod(v[0], v[1]); }},
        {"-", 1, 1, [](Arguments v) { return -v[0]; }},
        {"+", 1, 1, [](Arguments v) { return v[0]; }},
        {"!", 1, 1, [](Arguments v) { return double(v[0] == 0); }},
        {"^", 2, 2, [](Arguments v) { return std::pow(v[0], v[1]); }},
        {"ceil_div", 2, 2, [](Arguments v) { return std::ceil(v[0] / v[1]); }},
        {"gcd", 2, kMany, greatest_common_divisor},
        {"min", 1, kMany, [](Arguments v) { return *std::min_element(v.begin(), v.end()); }},
        {"max", 1, kMany, [](Arguments v) { return *std::max_element(v.begin(), v.end()); }},
        {"sum", 1, kMany, sum},
        {"avg", 1, kMany, [](Arguments v) { return sum(v) / static_cast<double>(v.size()); }},
        {"floor", 1, 1, unary<std::floor>},
        {"ceil", 1, 1, unary<std::ceil>},
        {"rint", 1, 1, [](Arguments v) { return std::floor(v[0] + 0.5); }},
        {"abs", 1, 1, unary<std::fabs>},
        {"sign", 1, 1, [](Arguments v) { return double((v[0] > 0) - (v[0] < 0)); }},
        {"sqrt", 1, 1, unary<std::sqrt>},
        {"cbrt", 1, 1, unary<std::cbrt>},
        {"exp", 1, 1, unary<std::exp>},
        {"log", 1, 1, unary<std::log>},
        {"log2", 1, 1, unary<std::log2>},
        {"log10", 1, 1, unary<std::log10>},
        {"sin", 1, 1, unary<std::sin>},
        {"cos", 1, 1, unary<std::cos>},
        {"tan", 1, 1, unary<std::tan>},
        {"asin", 1, 1, unary<std::asin>},
        {"acos", 1, 1, unary<std::acos>},
        {"atan", 1, 1, unary<std::atan>},
        {"sinh", 1, 1, unary<std::sinh>},
        {"cosh", 1, 1, unary<std::cosh>},
        {"tanh", 1, 1, unary<std::tanh>},
        {"asinh", 1, 1, unary<std::asinh>},
        {"acosh", 1, 1, unary<std::acosh>},
        {"atanh", 1, 1, unary<std::atanh>},
        {"atan2", 2, 2, [](Arguments v) { return std::atan2(v[0], v[1]); }},
    };
    for (const Operator& op : kOperators)
      if (op.name == name && arguments >= op.least_arguments && arguments <= op.most_arguments) return &op;
    return nullptr;
  }

  template <class IndexOf>
  Node node(const Json& json, const IndexOf& index_of) const {
    if (json.is(Json::Kind::number)) return {Kind::number, json.real(), 0, nullptr, {}};
    if (json.is(Json::Kind::text)) return {Kind::value, 0, index_of(json), nullptr, {}};
    if (json.is(Json::Kind::object)) return factors(json, index_of);
    if (!json.is(Json::Kind::list) || json.list().empty() || !json.list()[0].is(Json::Kind::text))
      throw Error("'" + name_ + "' must be a number, a name or a list that begins with an operator");
    const std::vector<Json>& list = json.list();
    const Operator* op = find(list[0].text(), list.size() - 1);
    if (!op)
      throw Error("'" + name_ + "' has the operator '" + list[0].text() + "' with " +
                  std::to_string(list.size() - 1) + " arguments, which is not supported");
    Node call{Kind::call, 0, 0, op, {}};
    for (std::size_t i = 1; i < list.size(); ++i) call.arguments.push_back(node(list[i], index_of));
    return call;
  }

  /// The form of schemas 1 and 2.
  template <class IndexOf>
  Node factors(const Json& json, const IndexOf& index_of) const {
    const auto number = [](const Json& value) {
      return constant(value.whole(-kMaxMagnitude, kMaxMagnitude));
    };
    Node product = number(json["times"]);
    for (const Json& f : json["factors"].list()) {
      Node scaled = call("*", number(f["multiplier"]), {Kind::value, 0, index_of(f["of"]), nullptr, {}});
      product = call("*", std::move(product),
                     call("ceil_div", std::move(scaled), constant(f["divisor"].whole(1, kMaxMagnitude))));
    }
    const bool is_number = product.kind == Kind::number;
    return is_number ? constant(json["plus"].whole(-kMaxMagnitude, kMaxMagnitude) +
                                static_cast<std::int64_t>(product.number))
                     : call("+", number(json["plus"]), std::move(product));
  }

  static Node constant(std::int64_t number) {
    return {Kind::number, static_cast<double>(number), 0, nullptr, {}};
  }
  static Node call(const char* name, Node a, Node b) {
    Node node{Kind::call, 0, 0, find(name, 2), {}};
    node.arguments.push_back(std::move(a));
    node.arguments.push_back(std::move(b));
    return node;
  }

  template <class ValueAt>
  double value_of(const Node& node, const ValueAt& value_at) const {
    if (node.kind == Kind::number) return node.number;
    if (node.kind == Kind::value) return static_cast<double>(value_at(node.index));
    const auto part = [&](std::size_t i) { return value_of(node.arguments[i], value_at); };
    // What is left out does not count.
    if (node.op->evaluate == chosen_branch) return part(part(0) != 0 ? 1 : 2);
    if (node.op->evaluate == both && part(0) == 0) return 0;
    if (node.op->evaluate == either && part(0) != 0) return 1;
    std::vector<double> values;
    for (const Node& argument : node.arguments) values.push_back(value_of(argument, value_at));
    const double value = node.op->evaluate(values);
    if (!std::isfinite(value)) throw Error("'" + name_ + "' is not a number here");
    return value;
  }

  std::string name_;
  Node root_;
};

}  // namespace warptune::detail
