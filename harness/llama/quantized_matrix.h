#pragma once
// A quantized matrix as the kernels of op linear take it (kernels/linear/packed_weights.h), read from a
// checkpoint, or rounded from 16 or 32 bits.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/checkpoint.h"
#include "harness/llama/quantization_config.h"
#include "harness/llama/quantized_tensors.h"
#include "harness/llama/tensor_parallel.h"
#include "harness/llama/weight_format.h"

namespace warptune {

struct QuantizedMatrix {
  WeightFormat format;
  std::vector<std::byte> weight;    // packed [rows, columns]
  std::vector<std::byte> scales;    // as scale_index() has them, in scale_dtype()
  std::vector<std::int8_t> zeros;   // as the scales, the zero points minus 8; empty: all are 8
  std::vector<std::int32_t> order;  // [columns]; empty: columns are in order
  std::vector<float> row_scales;    // nvfp4: [rows]
  std::vector<std::string> notes;   // sentences for the user
};

/// The modules `parts` ("model.layers.0.self_attn.q_proj", rows), one below the other, as one matrix. None
/// where all of them are stored in 16 bits. Throws InputError: one sentence with the tensor's name.
std::optional<QuantizedMatrix> read_quantized(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                              const Parts& parts, const Slice& columns);

/// The format that read_quantized() finds, without packing the weights.
std::optional<WeightFormat> find_format(const Checkpoint& checkpoint, const QuantizationConfig& config,
                                        const Parts& parts, const Slice& columns);

/// The format that the config alone declares: as the tensors may have it.
std::optional<WeightFormat> declared_format(const QuantizationConfig& config, const Parts& parts);

/// Threads that read a quantized matrix.
inline constexpr int kPackThreads = 8;

/// Writes the weights of a module to the rows from `first_row` on of a packed matrix, whose bytes are 0
/// before. Throws InputError where a weight is NaN.
void pack_weights(const QuantizedTensors& from, std::int64_t first_row, std::byte* to);

/// Rows of a matrix, in the dtype of a checkpoint.
struct FloatRows {
  DType dtype = DType::fp32;
  Slice rows;                       // that are quantized
  const std::byte* data = nullptr;  // [rows.stored, columns]; need not be aligned
};

/// The parts, one below the other, rounded to nearest in a symmetric format: the largest magnitude of a group
/// is the largest value, of a part of nvfp4 that with the largest scale; in mxfp4 it is 4 or more, with the
/// power of two below, in q6_k -32. q4_k and q5_k are not symmetric: the values of a group lie between its
/// minimum, at most 0, and its maximum. Throws InputError where `format` has zero points or an order of
/// columns, where its group does not divide `columns`, and where a value is not finite or too large for a
/// scale of fp16. Slices have the values of the whole matrix; they must begin and end between its groups.
QuantizedMatrix quantize(const WeightFormat& format, std::span<const FloatRows> parts, const Slice& columns);

}  // namespace warptune
