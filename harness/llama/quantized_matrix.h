#pragma once
// A quantized matrix as the kernels of op linear take it (kernels/linear/packed_weights.h), read from a
// checkpoint.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/llama/checkpoint.h"
#include "harness/llama/layer_modules.h"
#include "harness/llama/quantization_config.h"
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

}  // namespace warptune
