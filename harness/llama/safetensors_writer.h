#pragma once
// Writes a safetensors file of tensors that are known before their contents (safetensors.h has the format).
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace warptune {

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
