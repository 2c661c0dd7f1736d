#pragma once
// A process that does a part of this program's work under bounds: a compiler, Python, a function of a user.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace warptune {

struct ChildBounds {
  double seconds = 60;
  std::size_t output_bytes = 1 << 20;  // most bytes of stdout and stderr
  std::uint64_t memory_bytes = 0;      // most bytes of the address space of a program; 0: no bound
};

/// Runs `body` in a new process and process group, without input. At its end, beyond a bound, and when this
/// process dies, the whole group is killed; when this process dies, `folder`, if any, is removed too. Throws
/// InputError that begins with `what`: the bound, the signal, or the first error, else the last line, of the
/// output. What `body` throws is its output.
void run_child(const std::string& what, const ChildBounds& bounds, const std::function<void()>& body,
               const std::filesystem::path& folder = {});

/// The same for a program, which is looked up in $PATH. It inherits the `files`. `temporary` is its $TMPDIR
/// and the folder.
void run_program(const std::string& what, const ChildBounds& bounds, std::vector<std::string> words,
                 const std::filesystem::path& temporary = {}, std::span<const int> files = {});

/// A new folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A file in memory without a name, through which a child returns results. Nothing stays of it.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;
  int descriptor() const { return file_; }
  /// Its path in this process, and in a child that inherits it.
  std::string path() const;
  void write(std::span<const std::byte> bytes) const;
  /// Reads `bytes` from the beginning; false where there are fewer.
  bool read(std::span<std::byte> bytes) const;

 private:
  int file_ = -1;
};

}  // namespace warptune
