#pragma once
#include <cstddef>

#include "harness/llama/quantized_matrix.h"

namespace warptune::testing {

struct Q4KWeight {
  float value, step;  // of its group
};

/// A weight of a packed matrix of Q4_K.
inline Q4KWeight q4_k_weight(const QuantizedMatrix& m, std::int64_t columns, std::int64_t row,
                             std::int64_t column) {
  const std::int64_t steps = super_scale_index(columns, row, column);
  const std::byte* const pair = m.scales.data() + 2 * scale_index(kWeightsQ4K, 32, columns, row, column);
  const auto times = [&](std::int64_t i) {
    return static_cast<float>(load(DType::fp16, m.scales.data(), steps + i)) *
           static_cast<float>(std::to_integer<int>(pair[i]));
  };
  const PackedPosition at = packed_position(kWeightsQ4K, columns, row, column);
  const int nibble = std::to_integer<int>(m.weight.at(static_cast<std::size_t>(at.byte))) >> at.shift & 15;
  return {static_cast<float>(nibble) * times(0) - times(1), times(0)};
}

}  // namespace warptune::testing
