#pragma once
// Packs stored weights as the kernels of op linear take them (kernels/linear/packed_weights.h), on several
// threads.
#include <cstddef>
#include <cstdint>

#include "harness/llama/quantized_tensors.h"

namespace warptune {

/// Threads that read a quantized matrix.
inline constexpr int kPackThreads = 8;

/// Writes the weights of a module to the rows from `first_row` on of a packed matrix, whose bytes are 0
/// before. Throws InputError where a weight is NaN.
void pack_weights(const QuantizedTensors& from, std::int64_t first_row, std::byte* to);

}  // namespace warptune
