#pragma once
// Hugging Face safetensors, memory-mapped: an 8-byte little-endian header length, a JSON header
// {"name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ..}, then the data.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/dtype.h"

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
  /// Rows of a head, where the file has those of the two halves of a head in pairs, as GGUF for interleaved
  /// RoPE; 0: rows are in order.
  std::int64_t paired_rows = 0;

  /// Where the file has a row.
  std::int64_t stored_row(std::int64_t row) const {
    if (paired_rows == 0) return row;
    const std::int64_t half = paired_rows / 2, in_head = row % paired_rows;
    return row - in_head + in_head % half * 2 + in_head / half;
  }
};

/// Throws InputError where two tensors of a file, by their names, share bytes.
void reject_overlaps(const std::map<std::string, StoredTensor>& tensors, const std::string& origin);

/// The dtype as a file names it: "F32", "F16", "BF16", "I32".
std::string stored_name(DType dtype);
/// The dtype of such a name; empty for any other.
std::optional<DType> dtype_stored_as(std::string_view name);
/// The dtype of a tensor of F32, F16 or BF16. Throws InputError for any other.
DType float_dtype(const StoredTensor& tensor, const std::string& name);
/// Bytes per element of a dtype as a file names it; 0 for one that the format does not have.
std::int64_t stored_bytes(const std::string& dtype);

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

struct TensorLayout {
  std::string name;
  std::string dtype;  // as a file names it: "F32", "BF16", "I8", ..
  std::vector<std::int64_t> shape;
  std::int64_t bytes() const;
};

/// Writes to PATH.partial, which finish() renames; without finish() nothing stays. Throws std::runtime_error
/// where the disk refuses it.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path path, std::span<const TensorLayout> tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  /// Appends to a tensor, from its first element on.
  void append(const std::string& name, std::span<const std::byte> bytes);
  /// Throws std::logic_error if a tensor is not complete.
  void finish();

 private:
  void check() const;
  struct Part {
    std::int64_t next, end;  // positions in the file
  };
  std::filesystem::path path_, partial_;
  std::ofstream file_;
  std::map<std::string, Part> parts_;
};

}  // namespace warptune
