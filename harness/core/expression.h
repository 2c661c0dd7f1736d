#pragma once
// Constraints and other conditions over dims, parameters and device facts, evaluated by muParser. They add
// `%`, `!`, `ceil`, `floor`, `ceil_div` and the constants `true` and `false` to muParser's own operators and
// functions.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// Why a value is not a number, for messages.
inline constexpr std::string_view kNotFinite = "it divides by zero, or a result in it is not finite";

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
  /// The values in the order of the variables given. NaN where the result, or anything that it is computed
  /// from, is not a finite number: `8 % 0 == 0` is NaN, `0 && 8 % 0 == 0` is 0, as is `1 ? 0 : 8 % 0`.
  double evaluate(const std::vector<double>& values) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace warptune
