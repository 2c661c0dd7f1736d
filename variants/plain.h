#pragma once
// Problems without features: what libraries take, and simple kernels.
#include <fmt/format.h>

#include "harness/core/op.h"

namespace warptune {

/// A constraint that holds for the problems of an op that have none of its optional dims, whichever it has.
inline std::string plain_problem(const Op& op) {
  std::string constraint;
  for (const Dim& dim : op.dims)
    if (dim.optional)
      constraint += fmt::format("{}{} == {}", constraint.empty() ? "" : " && ", dim.name, *dim.fallback);
  return constraint;
}

}  // namespace warptune
