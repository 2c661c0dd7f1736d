#pragma once
// The tensors of a model, in a folder of safetensors files or in one GGUF file.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/llama/gguf.h"
#include "harness/llama/safetensors.h"

namespace warptune {

/// The tensors of a model by their names of Hugging Face. In a folder these are those in
/// model.safetensors.index.json, each from its shard, or, without an index, those of model.safetensors; else
/// those of a GGUF file.
class Checkpoint {
 public:
  /// Whether the path is a file, or a folder with either file.
  static bool is_in(const std::filesystem::path& path);
  explicit Checkpoint(const std::filesystem::path& path);
  const std::map<std::string, const StoredTensor*>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Null where it is missing.
  const StoredTensor* find(const std::string& name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : it->second;
  }
  /// Throws InputError if it is missing or has another shape.
  const StoredTensor& tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// A sentence where the folder has both model.safetensors and an index of other files; else empty.
  const std::string& note() const { return note_; }

 private:
  const SafetensorsFile& open(const std::string& name);

  void open_folder();

  std::filesystem::path path_;
  std::optional<GgufModel> gguf_;
  std::map<std::string, SafetensorsFile> files_;  // by name
  std::map<std::string, const StoredTensor*> tensors_;
  std::string note_;
};

}  // namespace warptune
