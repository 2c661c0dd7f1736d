#pragma once
// Packs quantized values of a row as the kernels of op linear take them (kernels/linear/packed_weights.h).
// The checkpoints of harness/llama and the Python package share it.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/packed_weights.h"

namespace warptune {

/// Adds the zero point of int8 to signed bytes.
inline void make_unsigned(std::uint8_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] ^= 0x80u;
}

/// Packs 64 bytes of a row, of block_columns() values, a byte each: columns 2t, 2t + 1, 2t + 8 and 2t + 9 of
/// each fragment of 16 go to lane t. Integers are unsigned.
template <int kBits>
void pack_row(const std::uint8_t* values, std::byte* to) {
  std::uint8_t packed[kBlockRowBytes];
  if constexpr (kBits == 8) {
    for (std::size_t fragment = 0; fragment < 4; ++fragment)
      for (std::size_t lane = 0; lane < 4; ++lane)
        for (std::size_t odd = 0; odd < 2; ++odd) {
          const std::uint8_t* value = values + fragment * 16 + lane * 2 + odd;
          std::uint8_t* const pair = packed + lane * 16 + fragment * 4 + odd * 2;
          pair[0] = value[0], pair[1] = value[8];
        }
  } else {
    for (std::size_t fragment = 0; fragment < 8; ++fragment)
      for (std::size_t lane = 0; lane < 4; ++lane)
        for (std::size_t odd = 0; odd < 2; ++odd) {
          const std::uint8_t* value = values + fragment * 16 + lane * 2 + odd;
          packed[lane * 16 + fragment / 2 * 4 + odd * 2 + fragment % 2] =
              static_cast<std::uint8_t>(value[0] | value[8] << 4);
        }
  }
  std::memcpy(to, packed, kBlockRowBytes);
}

}  // namespace warptune
