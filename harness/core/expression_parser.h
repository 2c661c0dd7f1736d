#pragma once
// Text to a tree of operators.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/operator_table.h"

namespace warptune {

/// A number, a name, a quoted label, or an operator with its arguments.
struct Expression::Node {
  using Pointer = std::shared_ptr<const Node>;
  enum class Kind { number, name, label, call };

  Kind kind = Kind::number;
  double number = 0;
  std::string name = {};
  const Operator* op = nullptr;
  std::vector<Pointer> arguments = {};
  std::size_t position = 0;  // in the text
};

/// Throws InputError, which calls the text a `kind`.
Expression::Node::Pointer parse_expression(std::string_view text, std::string_view kind);

/// "constraint 'a >' is wrong at position 4: why"
InputError wrong_expression(std::string_view text, std::string_view kind, std::size_t position,
                            std::string_view why);

}  // namespace warptune
