#pragma once
// Problems without optional features, which libraries and simple kernels support.
#include <fmt/format.h>

#include "harness/core/op.h"

namespace warptune {

/// A constraint that holds where all optional dims of the op have their defaults.
inline std::string plain_problem(const Op& op) {
  std::string constraint;
  for (const Dim& dim : op.dims)
    if (dim.optional)
      constraint += fmt::format("{}{} == {}", constraint.empty() ? "" : " && ", dim.name, *dim.fallback);
  return constraint;
}

}  // namespace warptune
