// Quantized weights in the layout of the kernels of op linear (kernels/linear/packed_weights.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/linear/packed_weights.h"

namespace warptune {

/// A quantized matrix. `weights` and `group` are dims of op linear.
struct QuantizedShape {
  int weights, group;
  std::int64_t rows, columns;

  /// `name`: "int8", "int4", "fp8", "nvfp4", "mxfp4", "q4_k", "q5_k" or "q6_k".
  QuantizedShape(const std::string& name, int group, std::int64_t rows, std::int64_t columns);
  bool has_block_scales() const { return weights == kWeightsFp8 && group != 0; }
  /// Bytes of a scale: a code of e4m3 or e8m0 with fp4, else fp16 where columns of one row share it, else
  /// fp32.
  int scale_bytes() const { return is_fp4(weights) ? 1 : group != 0 && !has_block_scales() ? 2 : 4; }
  std::int64_t groups() const { return group == 0 ? 1 : columns / group; }
  /// Rows of an array of scales.
  std::int64_t scale_rows() const {
    return has_block_scales() ? (rows + kFp8ScaleRows - 1) / kFp8ScaleRows : rows;
  }
  std::int64_t packed_bytes() const { return warptune::packed_bytes(weights, rows, columns); }
  std::int64_t scale_count() const { return warptune::scale_count(weights, group, rows, columns); }
};

/// What a caller has, row by row.
struct QuantizedValues {
  // [rows, columns]: int8, e4m3, or integers that plus `offset` are 0 to 15; of q4_k, q5_k and q6_k the
  // super-blocks of GGUF, which have their scales
  const std::uint8_t* values;
  int offset;                      // of int4; codes of fp4 have 0
  const std::byte* scales;         // [rows, groups]; of fp8 blocks [ceil(rows / 128), groups]
  const std::int8_t* zero_points;  // [rows, groups], as the values; or null
  const std::int32_t* g_idx;       // [columns]: the group of each; or null
  float global_scale;              // of nvfp4, of all rows
};

/// The tensors of a plan on quantized weights, by the members of its args struct.
struct PackedTensors {
  std::vector<std::byte> weight, scales;
  std::vector<std::int8_t> zeros;   // empty: all are 8
  std::vector<std::int32_t> order;  // empty: columns are in order
  std::vector<float> row_scales;    // empty but for nvfp4
};

/// Throws std::invalid_argument: one sentence about a value that no kernel takes.
PackedTensors pack(const QuantizedShape& shape, const QuantizedValues& from);

}  // namespace warptune
