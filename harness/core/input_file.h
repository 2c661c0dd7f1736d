#pragma once
// Files that the user names for reading. Only regular files of a bounded size are read: a pipe would block, a
// device has no end. And names that come from data (a JSON, a YAML, a wisdom) and become names of files.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace warptune {

/// Sizes that no such file of use exceeds, in bytes.
inline constexpr std::uintmax_t kMaxSweepBytes = 1 << 20, kMaxConfigBytes = 16 << 20,
                                kMaxIndexBytes = 100'000'000, kMaxWisdomBytes = 1 << 30,
                                kMaxPromptBytes = 256 << 20;

/// A regular file, open for reading.
class InputFile {
 public:
  /// Never waits for the writer of a pipe. Throws InputError that begins with `origin`, which names the file:
  /// "ORIGIN cannot be read: it is not a regular file".
  InputFile(const std::filesystem::path& path, std::string origin);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return file_; }
  std::uintmax_t size() const { return size_; }
  /// All bytes. Throws InputError where they are more than `max_bytes`.
  std::string read(std::uintmax_t max_bytes) const;

 private:
  std::string origin_;
  int file_;
  std::uintmax_t size_ = 0;
};

/// The bytes of a file, read as above.
std::string read_input(const std::filesystem::path& path, const std::string& origin,
                       std::uintmax_t max_bytes);

/// What a file is that should hold JSON or binary data, by its first bytes: "a Git LFS pointer; ..", "UTF-16;
/// ..", "HTML or XML". Empty where it is none of these.
std::string_view foreign_format(std::string_view bytes);

/// The error in a text that is to name one file or folder; empty if there is none. Such a name leads to no
/// other folder, hides nothing, and needs no quotes in a shell.
std::string fault_of_file_name(std::string_view name);

/// FOLDER/NAME for a name of several parts ("kernels/common/tma.cuh"). Throws InputError where one part is
/// no such name, as ".." or the "/" of an absolute path.
std::filesystem::path path_below(const std::filesystem::path& folder, const std::filesystem::path& name);

}  // namespace warptune
