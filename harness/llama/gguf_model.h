#pragma once
// A model in a GGUF file: its metadata as a config, its tensors by their names of Hugging Face.
#include <filesystem>
#include <map>
#include <string>

#include "harness/llama/gguf.h"
#include "harness/llama/model_config.h"

namespace warptune {

/// Whether --model names a file, not a folder.
bool is_gguf(const std::filesystem::path& path);

class GgufModel {
 public:
  /// Throws InputError: one sentence with the file and the key or the tensor.
  explicit GgufModel(const std::filesystem::path& path);
  /// Matrices whose tensors are all of Q4_0 or all of Q8_0 are int4 or int8 in groups of 32. Others have no
  /// format: they are expanded to the dtype of the run.
  const ModelConfig& config() const { return config_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

 private:
  GgufFile file_;
  ModelConfig config_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace warptune
