#pragma once
// Files that survive a crash of the machine: when these functions return, the data is on the disk.
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace warptune {

/// An open file, closed at the end; -1: none.
class OpenFile {
 public:
  OpenFile() = default;
  /// Opens as open() does, with mode 0644. Throws std::runtime_error that names the file, or `named`.
  OpenFile(const std::filesystem::path& path, int flags, const std::filesystem::path& named = {});
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  int get() const { return file_; }
  /// Throws std::runtime_error with `path` where the disk refuses what was written.
  void close(const std::filesystem::path& path);

 private:
  int file_ = -1;
};

/// Makes the folder and its parents. Throws std::runtime_error that names it.
void make_folder(const std::filesystem::path& folder);
/// Writes the text at the position of an open file, and fsyncs. Throws std::runtime_error with `path` if the
/// disk refuses it.
void write_and_sync(int file, std::string_view text, const std::filesystem::path& path);
/// Fsyncs the folder of a path, so that a new file in it survives a crash.
void sync_folder_of(const std::filesystem::path& path);

/// The file that a path names through its symbolic links; it need not exist. Empty where the path names a
/// device, a pipe or an open descriptor (/dev/stdout): these are written in place, never renamed over. Throws
/// std::runtime_error for links that form a loop.
std::filesystem::path file_behind(const std::filesystem::path& path);
/// Writes a temporary file beside file_behind(path) and renames it: after a crash there is either the old or
/// the new file, and a link to it stays a link. An existing file keeps its permissions. Makes its folder. On
/// failure it removes the temporary file and throws std::runtime_error. A special file is written in place.
void replace_file(const std::filesystem::path& path, std::string_view text);
/// Checks that a file, a folder or files in that folder can be made; leaves no file. Throws InputError.
/// Commands that write at their end call it before the work.
void expect_writable(const std::filesystem::path& path);

/// Removes the last bytes of an open file, which are an incomplete line. Throws std::runtime_error.
void cut_end(int file, std::size_t bytes, const std::filesystem::path& path);
/// Appends a text that is cut off a damaged file to "PATH.cut", so that nothing is lost. Returns that path.
/// Throws std::runtime_error.
std::filesystem::path keep_beside(const std::filesystem::path& path, std::string_view text);

/// One sentence if an open file no longer has the path that it was opened with; else empty. The content of a
/// deleted file is then in a new file of that path, or in "PATH.rescued" where another file has the path.
std::string rescue(int file, const std::filesystem::path& path);

}  // namespace warptune
