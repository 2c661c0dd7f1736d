#pragma once
// An op with concrete dims and dtype.
#include <string>

#include "harness/core/assignment.h"
#include "harness/core/dtype.h"

namespace warptune {

using Config = Assignment;

struct Problem {
  std::string op;
  Assignment dims;
  DType dtype = DType::fp32;

  std::int64_t operator[](std::string_view dim) const { return dims[dim]; }
  /// The canonical string, the problem's key everywhere: "rms_norm[tokens=1,hidden=4096,dtype=bf16]".
  std::string key() const { return op + "[" + dims.str() + ",dtype=" + std::string(name_of(dtype)) + "]"; }
  bool operator==(const Problem&) const = default;
};

/// How many devices run a problem together: its dim `ranks`; 1 without one.
inline std::int64_t ranks_of(const Problem& problem) {
  return problem.dims.find("ranks") ? problem["ranks"] : 1;
}

}  // namespace warptune
