#pragma once
// Problems without optional features, which libraries and simple kernels support.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/core/op.h"

namespace warptune {

/// A constraint that holds where all optional dims of the op but `any` have their defaults.
inline std::string plain_problem(const Op& op, const std::vector<std::string>& any = {}) {
  std::string constraint;
  for (const Dim& dim : op.dims)
    if (dim.optional && std::ranges::find(any, dim.name) == any.end())
      constraint += fmt::format("{}{} == {}", constraint.empty() ? "" : " && ", dim.name,
                                dim.labels.empty() ? std::to_string(*dim.fallback)
                                                   : dim.labels[static_cast<std::size_t>(*dim.fallback)]);
  return constraint;
}

}  // namespace warptune
