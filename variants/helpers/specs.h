#pragma once
// Tensors and dims that many ops have.
#include <string>
#include <utility>
#include <vector>

#include "harness/core/op.h"

namespace warptune {

/// A tensor that is hot in a model.
inline TensorSpec activation(std::string name, DType dtype, std::vector<std::int64_t> shape,
                             Role role = Role::input, float scale = 1) {
  return {.name = std::move(name),
          .dtype = dtype,
          .shape = std::move(shape),
          .role = role,
          .cache = CacheState::hot,
          .scale = scale};
}

/// Lengths, ids, a table: int32 with given contents, hot in a model.
inline TensorSpec given_ints(std::string name, std::vector<std::int64_t> shape,
                             std::vector<std::int32_t> values, Role role = Role::input) {
  TensorSpec spec = activation(std::move(name), DType::int32, std::move(shape), role);
  spec.values = std::move(values);
  return spec;
}

/// Row `row` of a tensor with rows of `length` elements.
inline std::vector<double> row_of(const Values& values, std::int64_t row, std::int64_t length) {
  std::vector<double> elements(length);
  for (std::int64_t i = 0; i < length; ++i) elements[i] = values[row * length + i];
  return elements;
}

inline const std::vector<std::string> kNoYes = {"no", "yes"};
/// An optional dim, 0 by default: a choice of these labels, or a number.
inline Dim feature(std::string name, std::string doc, std::vector<std::string> labels = {}) {
  return {std::move(name), std::move(doc), 0, std::move(labels), 0, true};
}

}  // namespace warptune
