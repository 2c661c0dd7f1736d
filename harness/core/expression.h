#pragma once
// Constraints over dims, parameters and device facts, and other conditions, evaluated by muParser. Besides
// its own operators and functions they know `%`, `!` and the constants `true` and `false`.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

class Expression {
 public:
  /// Throws InputError that points at the offending place of the text, or names an unknown variable.
  /// `kind`: what the user knows the text as, for that sentence.
  Expression(std::string text, std::vector<std::string> variables, std::string_view kind = "constraint");
  ~Expression();
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;

  const std::string& text() const;
  /// The places, among those given, of the variables it uses; none: it is a constant.
  std::vector<std::size_t> used_variables() const;
  /// The values in the order of the variables given.
  double evaluate(const std::vector<double>& values) const;
  /// Whether `%` meets a zero on its right there; its value is then 1, so that nothing is divisible by zero.
  bool takes_remainder_by_zero(const std::vector<double>& values) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace warptune
