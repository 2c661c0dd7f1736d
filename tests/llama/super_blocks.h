#pragma once
#include <cstddef>

#include "harness/llama/quantized_matrix.h"

namespace warptune::testing {

struct SuperBlockWeight {
  float value, step;  // of its group
};

/// A weight of a packed matrix of super-blocks.
inline SuperBlockWeight super_block_weight(const QuantizedMatrix& m, std::int64_t columns, std::int64_t row,
                                           std::int64_t column) {
  const auto& [weights, group] = std::pair(m.format.weights, m.format.group);
  const std::byte* const pair = m.scales.data() + 2 * scale_index(weights, group, columns, row, column);
  const std::int64_t steps = super_step_index(weights, columns, row, column);
  const auto step = [&](std::int64_t i) {
    return static_cast<float>(load(DType::fp16, m.scales.data(), steps + i));
  };
  const PackedPosition at = packed_position(weights, columns, row, column);
  const int byte = std::to_integer<int>(m.weight.at(static_cast<std::size_t>(at.byte)));
  if (weights == kWeightsQ6K) {
    const float scale = step(0) * static_cast<std::int8_t>(pair[column / group % 2]);
    return {scale * static_cast<float>(byte - zero_point_of(weights)), scale};
  }
  const auto times = [&](std::int64_t i) {
    return step(i) * static_cast<float>(std::to_integer<int>(pair[i]));
  };
  return {static_cast<float>(byte >> at.shift & ((1 << weight_bits(weights)) - 1)) * times(0) - times(1),
          times(0)};
}

}  // namespace warptune::testing
