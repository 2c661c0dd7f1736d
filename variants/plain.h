#pragma once
// Problems without optional features, which libraries and simple kernels support.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "harness/core/op.h"

namespace warptune {

/// A constraint that holds where all optional dims of the op, but for those of `except`, have their defaults.
inline std::string plain_problem(const Op& op, std::initializer_list<std::string_view> except = {}) {
  std::string constraint;
  for (const Dim& dim : op.dims)
    if (dim.optional && std::ranges::find(except, dim.name) == except.end())
      constraint += fmt::format("{}{} == {}", constraint.empty() ? "" : " && ", dim.name, *dim.fallback);
  return constraint;
}

}  // namespace warptune
