#pragma once
// Constraints and other conditions over dims, parameters and device facts, evaluated by muParser. They add
// `%`, `!`, `ceil`, `floor`, `ceil_div` and the constants `true` and `false` to muParser's own operators and
// functions.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

class Expression {
 public:
  /// Throws InputError that gives the position of the error in the text, or names an unknown variable.
  /// `kind` names the text in that message.
  Expression(std::string text, std::vector<std::string> variables, std::string_view kind = "constraint");
  ~Expression();
  Expression(Expression&&) noexcept;

  const std::string& text() const;
  /// The indices, in `variables`, of the variables that it uses; empty: it is a constant.
  std::vector<std::size_t> used_variables() const;
  /// The values in the order of the variables given.
  double evaluate(const std::vector<double>& values) const;
  /// Whether a `%` has a zero on its right for these values. evaluate() then takes the remainder as 1, so
  /// that nothing is divisible by zero.
  bool takes_remainder_by_zero(const std::vector<double>& values) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace warptune
