#pragma once
// The types of GGUF tensors. A block holds consecutive values of a row with their scales.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/llama/safetensors.h"

namespace warptune {

struct BlockType {
  std::string_view name;  // "Q4_0", as StoredTensor::dtype has it
  std::uint32_t id;       // in a file
  std::int64_t values, bytes;
  void (*expand)(const std::byte* block, float* values);
};

/// Null where the type cannot be read.
const BlockType* find_block_type(std::uint32_t id);
const BlockType* find_block_type(std::string_view name);
/// "F32, F16, .."
std::string block_type_names();

/// Whether a tensor must be expanded before it is read as floats: it has blocks, or rows in pairs.
bool needs_expansion(const StoredTensor& tensor);
/// The values of such a tensor, on several threads. Its rows are in order.
std::vector<float> expanded(const StoredTensor& tensor);

}  // namespace warptune
