#pragma once
// Hugging Face safetensors, memory-mapped: an 8-byte little-endian header length, a JSON header
// {"name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ..}, then the data.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace warptune {

/// A file mapped read-only.
class MappedFile {
 public:
  /// Throws InputError if it cannot be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct StoredTensor {
  std::string dtype;  // as the file says: "F32", "F16", "BF16", "I32", ..
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // need not be aligned
};

/// The tensors of one file. Throws InputError with one sentence for a malformed file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

/// The tensors of a model folder: model.safetensors, or the shards of model.safetensors.index.json.
class Checkpoint {
 public:
  explicit Checkpoint(const std::filesystem::path& folder);
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Throws InputError if it is missing or has another shape.
  const StoredTensor& tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;

 private:
  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const StoredTensor*> tensors_;
};

}  // namespace warptune
