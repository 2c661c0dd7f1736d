#pragma once
// How quantized weights [rows, columns] of the op linear lie in memory: [ceil(rows / 8)][ceil(row bytes /
// 64)][8 rows][64 bytes], zero beyond the edges. Eight rows of 64 bytes, a block, are the operands of tensor
// cores as 32 lanes hold them: lane 4 * row + t has the 16 bytes from 16 t on, which are its columns 2t, 2t +
// 1, 2t + 8 and 2t + 9 of each fragment of 16 columns (mma.m16n8k16, kernels/common/mma.cuh). Eight bits:
// four adjacent bytes hold these columns of one fragment. Four bits: four bytes hold those of two fragments;
// the nibbles i and i + 4 are a pair of adjacent columns, so that a shift and a mask give both halves of a
// register.
#include "kernels/common/vec_width.h"

namespace warptune {

// The values of dim `weights`.
inline constexpr int kWeightsSame = 0;  // as x
inline constexpr int kWeightsInt8 = 1;
inline constexpr int kWeightsInt4 = 2;  // unsigned nibbles: the value plus 8
inline constexpr int kWeightsFp8 = 3;   // e4m3

inline constexpr int kBlockRows = 8, kBlockRowBytes = 64, kBlockBytes = kBlockRows * kBlockRowBytes;
/// Rows that share a scale where weights are fp8 with a group: blocks of 128 x 128.
inline constexpr int kFp8ScaleRows = 128;

/// Bits of a quantized weight.
WARPTUNE_HOST_DEVICE constexpr int weight_bits(int weights) { return weights == kWeightsInt4 ? 4 : 8; }
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

/// Scales of a packed matrix, and its zero points: with `group` columns of a row to one [ceil(rows /
/// 8)][columns / group][8 rows], of fp8 [ceil(rows / 128)][columns / 128] for blocks of 128 x 128; without
/// groups [rows].
WARPTUNE_HOST_DEVICE constexpr long long scale_index(int weights, int group, long long columns, long long row,
                                                     long long column) {
  if (group == 0) return row;
  const long long groups = columns / group;
  if (weights == kWeightsFp8) return row / kFp8ScaleRows * groups + column / group;
  return (row / kBlockRows * groups + column / group) * kBlockRows + row % kBlockRows;
}
WARPTUNE_HOST_DEVICE constexpr long long scale_count(int weights, int group, long long rows,
                                                     long long columns) {
  if (group == 0) return rows;
  const long long per_scale = weights == kWeightsFp8 ? kFp8ScaleRows : kBlockRows;
  return (rows + per_scale - 1) / per_scale * (columns / group) * (weights == kWeightsFp8 ? 1 : kBlockRows);
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
  if (weights != kWeightsInt4) return {from + fragment * 4 + k / 8 * 2 + k % 2, 0};
  const long long nibble = fragment % 2 * 2 + k / 8 + k % 2 * 4;
  return {from + fragment / 2 * 4 + nibble / 2, static_cast<int>(nibble % 2 * 4)};
}

}  // namespace warptune
