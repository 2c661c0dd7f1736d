#pragma once
// Constraint expressions over dims, parameters and device facts, evaluated by muParser. Besides its own
// operators and functions they know `%`, `!` and the constants `true` and `false`.
#include <memory>
#include <string>
#include <vector>

namespace warptune {

class Expression {
 public:
  /// Throws InputError that points at the offending place of the text, or names an unknown variable.
  Expression(std::string text, std::vector<std::string> variables);
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  const std::string& text() const;
  /// The values in the order of the variables given.
  double evaluate(const std::vector<double>& values) const;
  /// Whether `%` meets a zero on its right there; its value is then 1, so that nothing is divisible by zero.
  bool takes_remainder_by_zero(const std::vector<double>& values) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace warptune
