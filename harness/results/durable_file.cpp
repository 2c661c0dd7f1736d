#include "harness/results/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "harness/core/error.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, int error) {
  throw std::runtime_error(fmt::format("'{}' cannot be written: {}", path.string(), std::strerror(error)));
}

/// Pipes and some file systems have nothing to sync.
void sync(int file, const fs::path& path) {
  if (::fsync(file) != 0 && errno != EINVAL && errno != EROFS) fail(path, errno);
}

class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail(path, errno);
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw std::runtime_error(
        fmt::format("the folder '{}' cannot be made: {}", folder.string(), error.message()));
}

void write_and_sync(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(path, n < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  sync(file, path);
}

void sync_folder_of(const fs::path& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  const OpenFile open(folder, O_RDONLY | O_DIRECTORY);
  sync(open.get(), folder);
}

void replace_file(const fs::path& path, std::string_view text) {
  make_folder(path.parent_path());
  const fs::path partial = path.string() + fmt::format(".{}", ::getpid());
  std::error_code error;
  try {
    write_and_sync(OpenFile(partial, O_WRONLY | O_CREAT | O_TRUNC).get(), text, path);
    fs::rename(partial, path, error);
    if (error) fail(path, error.value());
  } catch (...) {
    fs::remove(partial, error);
    throw;
  }
  sync_folder_of(path);
}

void expect_writable(const fs::path& path) {
  std::error_code error;
  fs::path there = fs::absolute(path);
  if (fs::is_other(there, error)) return;  // /dev/stdout
  while (!fs::is_directory(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::path probe = there / fmt::format(".warptune.{}", ::getpid());
  const int file = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0)
    throw InputError(fmt::format("'{}' cannot be written: {}", path.string(), std::strerror(errno)));
  ::close(file);
  ::unlink(probe.c_str());
}

}  // namespace warptune
