#pragma once
// The tensors of one quantized module, found in a checkpoint and checked.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/llama/checkpoint.h"
#include "harness/llama/quantization_config.h"
#include "harness/llama/tensor_parallel.h"

namespace warptune {

/// Bytes of the scale of a block of Q4_0, Q5_0 and Q8_0, which comes first.
inline constexpr std::int64_t kGgufScaleBytes = 2;

/// The tensors of a module, or their slices where only some rows and columns are read.
struct QuantizedTensors {
  using Tensor = std::shared_ptr<const StoredTensor>;
  std::string module;
  std::int64_t rows = 0, columns = 0;
  WeightStorage storage = WeightStorage::plain;
  WeightFormat format = {};  // zeros: whether the zero points are stored
  std::string weight_name = {};
  Tensor weight;
  std::string scale_name = {};
  Tensor scales;
  std::int64_t scale_row_stride = 0, scale_group_stride = 0;  // in elements
  float global_scale = 1;                                     // nvfp4: multiplies all others
  Tensor zeros;                                               // null where none are stored
  std::vector<std::int32_t> order = {};   // [columns]: which column comes i-th; empty: they are in order
  const BlockType* block_type = nullptr;  // of GGUF

  std::int64_t groups() const { return format.group == 0 ? 1 : columns / format.group; }
  /// Whether the tensors have all rows of a column together, as GPTQ and AWQ store them.
  bool is_column_major() const {
    return storage == WeightStorage::gptq || storage == WeightStorage::gptq_v2 ||
           storage == WeightStorage::awq;
  }
  bool has_block_scales() const { return format.weights == kWeightsFp8 && format.group != 0; }
  /// Rows of weights that share a scale: one, or those of a block.
  std::int64_t rows_of_scale() const { return has_block_scales() ? kFp8ScaleRows : 1; }
  std::int64_t scale_rows() const { return (rows + rows_of_scale() - 1) / rows_of_scale(); }
  float scale(std::int64_t scale_row, std::int64_t group) const;
  /// The block of GGUF that has a group: its scale, in fp16, and its values, or the super-block.
  const std::byte* block(std::int64_t row, std::int64_t group) const;
  /// The stored value that stands for 0; `zeros` must not be null.
  int zero_point(std::int64_t row, std::int64_t group) const;
};

/// Element i of data that need not be aligned.
std::uint32_t stored_word(const StoredTensor& tensor, std::int64_t i);

/// Where in a word of AWQ the value of a row (modulo 8) is.
constexpr int awq_position(std::int64_t row) { return static_cast<int>(row % 2 * 4 + row / 2); }

/// The tensors of `module` [rows, columns]; none where it is in 16 bits. Throws InputError: one sentence with
/// the name of the tensor, or the module where a slice does not lie on its groups.
std::optional<QuantizedTensors> find_quantized(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                               const std::string& module, const Slice& rows,
                                               const Slice& columns);

}  // namespace warptune
