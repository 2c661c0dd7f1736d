#pragma once
// How quantized weights [rows, columns] of the op linear lie in memory: [ceil(rows / 8)][ceil(row bytes /
// 64)][8 rows][64 bytes], zero beyond the edges. Eight rows of 64 bytes, a block, are the operands of tensor
// cores as 32 lanes hold them: lane 4 * row + t has the 16 bytes from 16 t on, which are its columns 2t, 2t +
// 1, 2t + 8 and 2t + 9 of each fragment of 16 columns (mma.m16n8k16, kernels/common/mma.cuh). A word of four
// bytes holds these columns of one fragment with eight bits, and of two fragments with four bits. Its bytes i
// and i + 2, or its nibbles i and i + 4, are a pair of adjacent columns, so that a shift and a mask give both
// halves of a register. Integers are stored unsigned, as the value plus the zero point of the format.
#include "kernels/common/vec_width.h"

namespace warptune {

// The values of dim `weights`.
inline constexpr int kWeightsSame = 0;  // as x
inline constexpr int kWeightsInt8 = 1;
inline constexpr int kWeightsInt4 = 2;
inline constexpr int kWeightsFp8 = 3;  // e4m3
// Nibbles of e2m1: a sign, two bits of exponent, one of mantissa; 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
inline constexpr int kWeightsNvfp4 = 4;  // groups of 16 columns have a scale of ue4m3, rows one of fp32
inline constexpr int kWeightsMxfp4 = 5;  // groups of 32 columns have a scale of ue8m0, a power of two
// Q4_K of llama.cpp: nibbles; a value is d * scale * nibble - dmin * minimum. Groups of 32 columns
// have a byte of scale and one of minimum, super-blocks of 256 columns of a row have d and dmin in fp16.
inline constexpr int kWeightsQ4K = 6;
// Q6_K of llama.cpp: integers from -32 to 31; a value is d * scale * integer. Groups of 16 columns have a
// signed byte of scale, super-blocks of 256 columns of a row have d in fp16.
inline constexpr int kWeightsQ6K = 7;
// Q5_K of llama.cpp: as Q4_K, with bytes instead of nibbles, those of a file from 0 to 31.
inline constexpr int kWeightsQ5K = 8;

inline constexpr int kBlockRows = 8, kBlockRowBytes = 64, kBlockBytes = kBlockRows * kBlockRowBytes;
/// Rows that share a scale where weights are fp8 with a group: blocks of 128 x 128.
inline constexpr int kFp8ScaleRows = 128;

WARPTUNE_HOST_DEVICE constexpr bool is_fp4(int weights) {
  return weights == kWeightsNvfp4 || weights == kWeightsMxfp4;
}
/// Whether groups have a minimum beside their scale.
WARPTUNE_HOST_DEVICE constexpr bool has_minima(int weights) {
  return weights == kWeightsQ4K || weights == kWeightsQ5K;
}
/// Whether the scales of groups are bytes, and super-blocks of 256 columns have the steps of these.
WARPTUNE_HOST_DEVICE constexpr bool has_super_blocks(int weights) {
  return has_minima(weights) || weights == kWeightsQ6K;
}
/// Columns of a group where the format alone says it; 0: the format has several.
WARPTUNE_HOST_DEVICE constexpr int fixed_group(int weights) {
  if (weights == kWeightsNvfp4 || weights == kWeightsQ6K) return 16;
  return weights == kWeightsMxfp4 || has_minima(weights) ? 32 : 0;
}
/// Bits of a quantized weight.
WARPTUNE_HOST_DEVICE constexpr int weight_bits(int weights) {
  return weights == kWeightsInt4 || weights == kWeightsQ4K || is_fp4(weights) ? 4 : 8;
}
/// The zero point of a format of integers, which makes them unsigned.
WARPTUNE_HOST_DEVICE constexpr int zero_point_of(int weights) {
  return weights == kWeightsInt4 ? 8 : weights == kWeightsInt8 ? 128 : weights == kWeightsQ6K ? 32 : 0;
}
/// Random weights are uniform bytes, of fp8 values of [-1, 1].
WARPTUNE_HOST_DEVICE constexpr float random_range(int weights) { return weights == kWeightsFp8 ? 1 : 128; }
/// The value of a nibble of e2m1: below 1 in steps of 0.5, then 2 or 3 times a power of two.
WARPTUNE_HOST_DEVICE constexpr float fp4_value(int nibble) {
  const int magnitude = nibble & 7,
            quarters = magnitude < 2 ? 2 * magnitude : (2 + magnitude % 2) << magnitude / 2;
  return static_cast<float>((nibble & 8) != 0 ? -quarters : quarters) / 4;
}
/// Columns of a block.
WARPTUNE_HOST_DEVICE constexpr int block_columns(int weights) {
  return 8 * kBlockRowBytes / weight_bits(weights);
}
WARPTUNE_HOST_DEVICE constexpr long long packed_blocks_of_row(int weights, long long columns) {
  return (columns + block_columns(weights) - 1) / block_columns(weights);
}
/// Bytes of a packed matrix.
WARPTUNE_HOST_DEVICE constexpr long long packed_bytes(int weights, long long rows, long long columns) {
  return (rows + kBlockRows - 1) / kBlockRows * packed_blocks_of_row(weights, columns) * kBlockBytes;
}

/// Scales of groups of integers and of blocks of fp8 are below this: kernels multiply them by 2^6 in fp16
/// (GroupConverter).
inline constexpr int kMaxGroupScale = 1 << 10;

/// Columns of a super-block: two blocks of Q4_K, four of Q5_K and Q6_K.
inline constexpr int kSuperColumns = 256;
/// 16-bit words of scales that a row of a super-block has: one for each 32 columns. super_steps() words
/// follow: d, and dmin where groups have minima.
inline constexpr int kSuperGroupWords = kSuperColumns / 32;
WARPTUNE_HOST_DEVICE constexpr int super_steps(int weights) { return has_minima(weights) ? 2 : 1; }
/// What d and dmin are below, so that all scales of groups are.
WARPTUNE_HOST_DEVICE constexpr int max_super_step(int weights) {
  return kMaxGroupScale / (has_minima(weights) ? 64 : 128);
}
/// The words of eight rows: [blocks][8 rows][32 columns], then [8 rows][steps]. The word of 32 columns has
/// two bytes, the low one first: the scale and the minimum of a group, the scales of two groups of Q6_K.
WARPTUNE_HOST_DEVICE constexpr int super_words(int weights) {
  return kBlockRows * (kSuperGroupWords + super_steps(weights));
}
/// The number of the super-block of a column.
WARPTUNE_HOST_DEVICE constexpr long long super_index(long long columns, long long row, long long column) {
  return row / kBlockRows * (columns / kSuperColumns) + column / kSuperColumns;
}
/// The word that is d of the super-block of a column; dmin follows.
WARPTUNE_HOST_DEVICE constexpr long long super_step_index(int weights, long long columns, long long row,
                                                          long long column) {
  return super_index(columns, row, column) * super_words(weights) + kBlockRows * kSuperGroupWords +
         row % kBlockRows * super_steps(weights);
}

/// Scales of a packed matrix, and its zero points: with `group` columns of a row to one [ceil(rows /
/// 8)][columns / group][8 rows], of fp8 [ceil(rows / 128)][columns / 128] for blocks of 128 x 128, of fp4
/// [ceil(rows / 8)][blocks of a row][8 rows][groups of a block], so that a lane loads those of its row at
/// once, of super-blocks [ceil(rows / 8)][super-blocks of a row][super_words()]; without groups [rows].
WARPTUNE_HOST_DEVICE constexpr long long scale_index(int weights, int group, long long columns, long long row,
                                                     long long column) {
  if (group == 0) return row;
  const long long groups = columns / group;
  if (weights == kWeightsFp8) return row / kFp8ScaleRows * groups + column / group;
  if (is_fp4(weights)) {
    const long long in_block = block_columns(weights), at = column % in_block / group;
    const long long block = row / kBlockRows * packed_blocks_of_row(weights, columns) + column / in_block;
    return (block * kBlockRows + row % kBlockRows) * (in_block / group) + at;
  }
  if (has_super_blocks(weights)) {
    const long long super = super_index(columns, row, column),
                    block = column % kSuperColumns / block_columns(weights);
    return super * super_words(weights) +
           (block * kBlockRows + row % kBlockRows) * (block_columns(weights) / 32) +
           column % block_columns(weights) / 32;
  }
  return (row / kBlockRows * groups + column / group) * kBlockRows + row % kBlockRows;
}
/// Bytes of the scales of eight rows and `columns` columns, a multiple of `group`. These scales are adjacent.
/// Eight rows of a block of fp8 share one. Not without groups.
WARPTUNE_HOST_DEVICE constexpr int slot_scale_bytes(int weights, int group, int columns) {
  if (has_super_blocks(weights)) return super_words(weights) * 2 * columns / kSuperColumns;
  if (weights == kWeightsFp8) return 4 * columns / group;
  return kBlockRows * (is_fp4(weights) ? 1 : 2) * columns / group;
}
WARPTUNE_HOST_DEVICE constexpr long long scale_count(int weights, int group, long long rows,
                                                     long long columns) {
  if (group == 0) return rows;
  if (is_fp4(weights)) return packed_bytes(weights, rows, columns) * 2 / group;
  if (has_super_blocks(weights))
    return (rows + kBlockRows - 1) / kBlockRows * (columns / kSuperColumns) * super_words(weights);
  const long long per_scale = weights == kWeightsFp8 ? kFp8ScaleRows : kBlockRows;
  return (rows + per_scale - 1) / per_scale * (columns / group) * (weights == kWeightsFp8 ? 1 : kBlockRows);
}

// The values of dim `activations`.
inline constexpr int kActivationsSame = 0;
/// A row of x is rounded to e4m3 times a scale of its own.
inline constexpr int kActivationsFp8 = 1;

/// The scale of a row whose largest magnitude is that: e4m3 ends at 448. The values are x * (1 / scale), in
/// fp32; rows below 1e-30, whose 1 / scale is not finite, become 0.
WARPTUNE_HOST_DEVICE constexpr float activation_scale(float largest) {
  return largest > 1e-30f ? largest / 448 : 1;
}

/// Where an element lies: its byte, and the lowest of its bits there.
struct PackedPosition {
  long long byte;
  int shift;
};
WARPTUNE_HOST_DEVICE constexpr PackedPosition packed_position(int weights, long long columns, long long row,
                                                              long long column) {
  const long long fragment = column % block_columns(weights) / 16, k = column % 16, lane = k % 8 / 2;
  const long long block =
      row / kBlockRows * packed_blocks_of_row(weights, columns) + column / block_columns(weights);
  const long long from = block * kBlockBytes + row % kBlockRows * kBlockRowBytes + lane * 16;
  if (weight_bits(weights) == 8) return {from + fragment * 4 + k / 8 + k % 2 * 2, 0};
  const long long nibble = fragment % 2 * 2 + k / 8 + k % 2 * 4;
  return {from + fragment / 2 * 4 + nibble / 2, static_cast<int>(nibble % 2 * 4)};
}

}  // namespace warptune
