#pragma once
// A GGUF file of llama.cpp, memory-mapped: "GGUF", a version, the counts of tensors and of metadata, the
// metadata, the tensors' names, extents, types and offsets, then the data. All numbers are little-endian.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/llama/safetensors.h"

namespace warptune {

class GgufFile {
 public:
  /// Throws InputError with one sentence for a malformed file.
  explicit GgufFile(const std::filesystem::path& path);
  /// Values by key: numbers, strings and flags; null where a value is an array.
  const nlohmann::json& metadata() const { return metadata_; }
  /// By the file's names, rows first: [rows, columns]. The dtype is that of gguf_blocks.h.
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  std::string origin() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  nlohmann::json metadata_ = nlohmann::json::object();
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace warptune
