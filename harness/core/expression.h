#pragma once
// Expressions over dims, parameters, derived values and facts of a device: constraints, and the geometry of
// launches. docs/expressions.md has the table of operators and functions.
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// Why a value is not a number, for messages.
inline constexpr std::string_view kNotFinite = "it divides by zero, or a result in it is not finite";

/// A double holds all integers up to it.
inline constexpr std::int64_t kLargestInteger = 9'000'000'000'000'000;
/// Whether a value is such an integer.
bool is_exact_integer(double value);

/// A name that expressions may use. A value i of it is written as label i, where there are labels.
struct Variable {
  std::string name;
  std::vector<std::string> labels = {};
};

/// An immutable tree of operators, built by the operators below or parsed from text. Copies share it.
///   const Expression rows("rows"), outputs = rows / if_else("epilogue == swiglu", 2, 1);
class Expression {
 public:
  struct Node;

  template <class Number>
  requires std::integral<Number> || std::floating_point<Number> Expression(Number number)
      : Expression(constant(static_cast<double>(number))) {}
  /// Parses a text. `kind` names it in messages. Throws InputError that gives the position of the error.
  Expression(std::string text, std::string_view kind = "constraint");
  Expression(const char* text) : Expression(std::string(text)) {}
  /// An operator or a function of operator_table.h, by its name.
  static Expression call(std::string_view name, std::vector<Expression> arguments);

  /// The text that it was parsed from, or one that parses to the same tree.
  std::string text() const;
  /// A number, a name as a string, or ["operator", argument, ...].
  nlohmann::json json() const;
  /// Without duplicates, in the order of the text.
  std::vector<std::string> names() const;
  /// Where it was written, for messages about its value: "kernels.yaml:9: 'grid'". Empty for those in C++.
  const std::string& origin() const { return origin_; }
  Expression with_origin(std::string origin) const;
  /// The number that the expression is, if it is nothing else.
  std::optional<double> number() const;

  /// The same with numbers in place of labels: a label is a name, or a quoted text, that is compared (`==`,
  /// `!=`, `in`) with a variable that has labels. Throws InputError for an unknown name or label.
  Expression resolve(std::span<const Variable> variables, std::string_view kind = "constraint") const;
  /// The variable with labels that is compared with a number or calculated with, if there is one.
  std::optional<std::string> label_used_as_number(std::span<const Variable> variables) const;
  /// The same with other expressions in place of names, and with a number for each operator whose arguments
  /// are numbers.
  using Replacement = std::function<std::optional<Expression>(const std::string& name)>;
  Expression substitute(const Replacement& replacement) const;
  /// NaN where the result, or anything that it is computed from, is not a finite number: `8 % 0 == 0` is NaN;
  /// `0 && 8 % 0 == 0` is 0, as is `1 ? 0 : 8 % 0`. Names of a branch that does not count are not looked up.
  double evaluate(const std::function<double(const std::string& name)>& value_of) const;

  friend Expression operator+(const Expression& a, const Expression& b) { return call("+", {a, b}); }
  friend Expression operator-(const Expression& a, const Expression& b) { return call("-", {a, b}); }
  friend Expression operator*(const Expression& a, const Expression& b) { return call("*", {a, b}); }
  friend Expression operator/(const Expression& a, const Expression& b) { return call("/", {a, b}); }
  friend Expression operator%(const Expression& a, const Expression& b) { return call("%", {a, b}); }
  friend Expression operator==(const Expression& a, const Expression& b) { return call("==", {a, b}); }
  friend Expression operator!=(const Expression& a, const Expression& b) { return call("!=", {a, b}); }
  friend Expression operator<(const Expression& a, const Expression& b) { return call("<", {a, b}); }
  friend Expression operator<=(const Expression& a, const Expression& b) { return call("<=", {a, b}); }
  friend Expression operator>(const Expression& a, const Expression& b) { return call(">", {a, b}); }
  friend Expression operator>=(const Expression& a, const Expression& b) { return call(">=", {a, b}); }
  friend Expression operator&&(const Expression& a, const Expression& b) { return call("&&", {a, b}); }
  friend Expression operator||(const Expression& a, const Expression& b) { return call("||", {a, b}); }
  friend Expression operator!(const Expression& a) { return call("!", {a}); }
  friend Expression ceil_div(const Expression& a, const Expression& b) { return call("ceil_div", {a, b}); }
  friend Expression if_else(const Expression& condition, const Expression& a, const Expression& b) {
    return call("?", {condition, a, b});
  }

 private:
  friend class Evaluator;
  explicit Expression(std::shared_ptr<const Node> node, std::string text = {}, std::string origin = {});
  static Expression constant(double number);

  std::shared_ptr<const Node> node_;
  std::string text_;  // empty: not parsed
  std::string origin_;
};

/// An expression whose names are places in a list of values: it is evaluated often, by any number of threads.
class Evaluator {
 public:
  /// Throws InputError for a name that is not in the list.
  Evaluator(const Expression& expression, std::span<const std::string> names);
  Evaluator(const Evaluator&);
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;
  ~Evaluator();

  double operator()(std::span<const double> values) const;
  const Expression& expression() const { return expression_; }
  /// The places of the names that it uses; empty: it is a constant.
  const std::vector<std::size_t>& used() const { return used_; }

 private:
  struct Instruction;
  void compile(const Expression::Node& node, std::span<const std::string> names, std::size_t depth);

  Expression expression_;
  std::vector<Instruction> instructions_;  // in postfix order
  std::vector<std::size_t> used_;
};

}  // namespace warptune
