#pragma once
// Inputs that a sweep asks for besides the usual random ones: large, tiny, infinite or NaN.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op.h"

namespace warptune {

/// How one tensor differs from what the op fills it with.
struct InputChange {
  std::string tensor;
  double scale = 1;                  // factor of its values
  std::optional<double> value = {};  // of every `every`th element, from the first on; may be infinite or NaN
  std::int64_t every = 1;
  bool operator==(const InputChange& other) const { return str() == other.str(); }  // NaN equals NaN
  std::string str() const;  // "x scale=1e-05 value=inf every=16"
};
using InputChanges = std::vector<InputChange>;

/// Throws InputError where a tensor is no input of floating-point numbers, or is too large for single values.
void check_inputs(const Op& op, const Problem& problem, const InputChanges& changes);

/// The op with changed tensors.
Op with_inputs(const Op& op, const InputChanges& changes);

}  // namespace warptune
