#pragma once
// The operators and functions of expressions. Their value is NaN where it is not a finite number, or where an
// argument that counts is NaN: the right side of `&&` and `||`, and a branch, may not count.
#include <cstddef>
#include <span>
#include <string_view>

namespace warptune {

struct Operator {
  enum class Form { prefix, infix, right_infix, conditional, membership, function };

  std::string_view name;
  Form form;
  int precedence;  // of operators; a higher one binds tighter
  std::size_t least_arguments, arguments_at_most;
  double (*evaluate)(std::span<const double> arguments);
  std::string_view alias = {};  // another way to write it: "and"
};

/// All of them, names without duplicates in a form.
std::span<const Operator> operator_table();
/// By name or alias; nullptr: there is none. `-`, `+` and `!` are prefix operators where `prefix` is set.
const Operator* find_operator(std::string_view name, bool prefix = false);
const Operator* find_function(std::string_view name);

}  // namespace warptune
