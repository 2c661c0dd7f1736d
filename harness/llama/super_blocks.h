#pragma once
// Super-blocks of GGUF, 256 columns of a row, as the kernels of op linear take them
// (kernels/linear/packed_weights.h). The checkpoints of harness/llama and the Python package share it.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/packed_weights.h"

namespace warptune {

/// Q4_K: d, dmin, 12 bytes of eight scales and eight minima of 6 bits, 128 bytes of nibbles. Of each 64
/// values the first 32 are low nibbles, the others the high ones.
inline constexpr std::int64_t kQ4KBytes = 144, kQ4KScales = 4, kQ4KNibbles = 16;  // size, offsets
/// Q5_K: the same with 32 bytes of fifth bits before the nibbles; bit r of byte i belongs to value 32 r + i.
inline constexpr std::int64_t kQ5KBytes = 176, kQ5KFifthBits = 16, kQ5KNibbles = 48;
/// Q6_K: 128 bytes of low nibbles, 64 of high two bits, 16 int8 scales, d.
inline constexpr std::int64_t kQ6KBytes = 210, kQ6KHighBits = 128, kQ6KScales = 192, kQ6KStep = 208;

constexpr std::int64_t super_block_bytes(int weights) {
  return weights == kWeightsQ4K ? kQ4KBytes : weights == kWeightsQ5K ? kQ5KBytes : kQ6KBytes;
}

inline int byte_at(const std::byte* bytes, std::int64_t i) { return std::to_integer<int>(bytes[i]); }

/// What a group of Q4_K or Q5_K has beside its values.
struct ScaleAndMinimum {
  int scale, minimum;
};
/// The last four of the eight groups have their high two bits above those of the first four.
inline ScaleAndMinimum scale_and_minimum(const std::byte* block, int group) {
  const auto packed = [&](int i) { return byte_at(block, kQ4KScales + i); };
  if (group < 4) return {packed(group) & 63, packed(group + 4) & 63};
  return {(packed(group + 4) & 15) | packed(group - 4) >> 6 << 4,
          packed(group + 4) >> 4 | packed(group) >> 6 << 4};
}

/// The values [first, first + count) of a super-block, as they are packed, unsigned. `first` and `count` are
/// multiples of 32. Each half of Q6_K has four rows of 32 values: rows 0 and 1 are the low nibbles of its 64
/// bytes, rows 2 and 3 the high ones.
inline void unpack_super_block(int weights, const std::byte* block, int first, int count, std::uint8_t* to) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(block);
  for (int row = first / 32; row < (first + count) / 32; ++row, to += 32) {
    if (has_minima(weights)) {
      const bool has_fifth = weights == kWeightsQ5K;
      const std::uint8_t* const nibbles = bytes + (has_fifth ? kQ5KNibbles : kQ4KNibbles) + row / 2 * 32;
      const int shift = row % 2 * 4;
      for (int i = 0; i < 32; ++i) {
        const int fifth = has_fifth ? bytes[kQ5KFifthBits + i] >> row & 1 : 0;
        to[i] = static_cast<std::uint8_t>((nibbles[i] >> shift & 15) | fifth << 4);
      }
    } else {
      const std::uint8_t* const low = bytes + row / 4 * 64 + row % 2 * 32;
      const std::uint8_t* const high = bytes + kQ6KHighBits + row / 4 * 32;
      const int low_shift = row % 4 / 2 * 4, high_shift = row % 4 * 2;
      for (int i = 0; i < 32; ++i)
        to[i] = static_cast<std::uint8_t>((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4);
    }
  }
}

/// d, and dmin where groups have minima, in fp16.
inline const std::byte* super_block_steps(int weights, const std::byte* block) {
  return block + (has_minima(weights) ? 0 : kQ6KStep);
}

/// Writes the scales of the super-block from `column` on of a row to those of a matrix of `columns` columns.
inline void pack_super_scales(int weights, const std::byte* block, std::int64_t columns, std::int64_t row,
                              std::int64_t column, std::byte* to) {
  for (int word = 0; word < kSuperGroupWords; ++word) {  // of 32 columns
    std::byte* const pair = to + 2 * scale_index(weights, 32, columns, row, column + 32 * word);
    if (weights == kWeightsQ6K) {
      std::memcpy(pair, block + kQ6KScales + 2 * word, 2);
    } else {
      const auto [scale, minimum] = scale_and_minimum(block, word);
      pair[0] = static_cast<std::byte>(scale);
      pair[1] = static_cast<std::byte>(minimum);
    }
  }
  std::memcpy(to + 2 * super_step_index(weights, columns, row, column), super_block_steps(weights, block),
              2 * static_cast<std::size_t>(super_steps(weights)));
}

}  // namespace warptune
