#pragma once
// The tensors of an op of the user: shapes by expression, and what they are filled with.
#include <functional>
#include <string>
#include <vector>

#include "harness/core/tensor.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/formula.h"

namespace warptune {

/// A tensor whose shape depends on the problem.
struct TensorFormula {
  std::string name, where;   // "FILE:LINE"
  std::vector<DType> dtype;  // one, or none: that of the problem
  std::vector<Formula> shape;
  Role role = Role::input;
  CacheState cache = CacheState::cold;
  float scale = 1;
  std::vector<Formula> below;  // one for integers: values from 0 up to it

  /// Throws CompileError, with file and line, where the shape or `below` has an impossible value.
  void check(const Problem& problem) const;
  TensorSpec spec(const Problem& problem, std::uint64_t seed) const;
};

/// {name: ..., shape: [...], dtype: ..., role: ..., cache: ..., uniform: ..., below: ...}. Throws InputError
/// with file and line.
TensorFormula read_tensor(const YamlReader& yaml, const YAML::Node& node, std::span<const Variable> names);

}  // namespace warptune
