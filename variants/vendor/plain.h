#pragma once
// What libraries take: problems without features.
#include <fmt/format.h>

#include "core/op.h"

namespace warptune {

/// Constraints that hold for the problems of an op that have none of its optional dims, whichever it has.
inline std::vector<std::string> plain_problems(const Op& op) {
  std::vector<std::string> constraints;
  for (const Dim& dim : op.dims)
    if (dim.optional) constraints.push_back(fmt::format("{} == {}", dim.name, *dim.fallback));
  return constraints;
}

}  // namespace warptune
