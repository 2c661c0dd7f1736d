#pragma once
// A GGUF file of llama.cpp, memory-mapped: "GGUF", a version, the counts of tensors and of metadata, the
// metadata, the tensors' names, extents, types and offsets, then the data. All numbers are little-endian.
// A block holds consecutive values of a row with their scales.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/llama/model_config.h"
#include "harness/llama/safetensors.h"
#include "harness/llama/super_blocks.h"

namespace warptune {

class GgufFile {
 public:
  /// Throws InputError with one sentence for a malformed file.
  explicit GgufFile(const std::filesystem::path& path);
  /// Values by key: numbers, strings and flags; null where a value is an array.
  const nlohmann::json& metadata() const { return metadata_; }
  /// The values whose keys begin with "tokenizer.", arrays too.
  nlohmann::json tokenizer() const;
  /// By the file's names, rows first: [rows, columns]. The dtype is the name of a BlockType.
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  std::string origin() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  nlohmann::json metadata_ = nlohmann::json::object();
  std::map<std::string, StoredTensor> tensors_;
};

struct BlockType {
  std::string_view name;  // "Q4_0", as StoredTensor::dtype has it
  std::uint32_t id;       // in a file
  std::int64_t values, bytes;
  void (*expand)(const std::byte* block, float* values);
  int weights = kWeightsSame;  // the smallest format that holds its values exactly, if there is one
  int wider = kWeightsSame;    // a format with more bits that also does, for matrices of several types
};

/// Q5_0: d, 32 high bits, 16 bytes: value i is in the low nibble of byte i, value i + 16 in the high one. The
/// values, from -16 to 15, as bytes.
void unpack_q5_0(const std::byte* block, std::uint8_t* values);

/// The names of the types whose values a format holds exactly.
std::vector<std::string> block_types_of(int weights);

/// Null where the type cannot be read.
const BlockType* find_block_type(std::uint32_t id);
const BlockType* find_block_type(std::string_view name);
/// "F32, F16, .."
std::string block_type_names();

/// Whether a tensor must be expanded before it is read as floats: it has blocks, or rows in pairs.
bool needs_expansion(const StoredTensor& tensor);
/// The values of such a tensor, on several threads. Its rows are in order.
std::vector<float> expanded(const StoredTensor& tensor);

/// Whether --model names a file, not a folder.
bool is_gguf(const std::filesystem::path& path);

/// A model in such a file: its metadata as a config, its tensors by their names of Hugging Face.
class GgufModel {
 public:
  /// Throws InputError: one sentence with the file and the key or the tensor.
  explicit GgufModel(const std::filesystem::path& path);
  /// A matrix is in the smallest format that holds the values of all its tensors. Where there is none they
  /// are expanded to the dtype of the run.
  const ModelConfig& config() const { return config_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

 private:
  GgufFile file_;
  ModelConfig config_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace warptune
