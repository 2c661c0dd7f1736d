#include "harness/results/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "harness/core/error.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, int error) {
  throw TextError("'{}' cannot be written: {}", path.string(), std::strerror(error));
}

/// Pipes and some file systems have nothing to sync.
void sync(int file, const fs::path& path) {
  if (::fsync(file) != 0 && errno != EINVAL && errno != EROFS) fail(path, errno);
}

/// All bytes of an open file, which may have lost its name.
std::string content_of(int file, const fs::path& path) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

OpenFile::OpenFile(const fs::path& path, int flags, const fs::path& named)
    : file_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
  if (file_ < 0) fail(named.empty() ? path : named, errno);
}

OpenFile::~OpenFile() {
  if (file_ >= 0) ::close(file_);
}

void OpenFile::close(const fs::path& path) {
  if (::close(std::exchange(file_, -1)) != 0) fail(path, errno);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) throw TextError("the folder '{}' cannot be made: {}", folder.string(), error.message());
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

fs::path file_behind(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // as Linux itself
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) return {};
  fs::path file = path;
  for (int links = 0;; ++links) {
    const fs::path folder = fs::weakly_canonical(fs::absolute(file).parent_path(), error);
    if (error) fail(path, error.value());
    file = folder / file.filename();
    if (file.string().starts_with("/proc/") && fs::exists(status)) return {};
    if (!fs::is_symlink(file, error)) return file;
    if (links == kMaxLinks) fail(path, ELOOP);
    const fs::path target = fs::read_symlink(file, error);
    if (error) fail(path, error.value());
    file = target.is_absolute() ? target : folder / target;
  }
}

void replace_file(const fs::path& path, std::string_view text) {
  const fs::path file = file_behind(path);
  if (file.empty()) return write_and_sync(OpenFile(path, O_WRONLY | O_TRUNC | O_NOCTTY).get(), text, path);
  make_folder(file.parent_path());
  const fs::path partial = file.string() + fmt::format(".{}", ::getpid());
  std::error_code error;
  try {
    {
      const OpenFile open(partial, O_WRONLY | O_CREAT | O_TRUNC);
      struct stat before {};
      if (::stat(file.c_str(), &before) == 0 && ::fchmod(open.get(), before.st_mode & 07777) != 0) {
        // a file system without permissions
      }
      write_and_sync(open.get(), text, path);
    }
    fs::rename(partial, file, error);
    if (error) fail(path, error.value());
  } catch (...) {
    fs::remove(partial, error);
    throw;
  }
  sync_folder_of(file);
}

void expect_writable(const fs::path& path) try {
  std::error_code error;
  fs::path there = file_behind(path);
  if (there.empty()) return;  // /dev/stdout
  while (!fs::is_directory(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::path probe = there / fmt::format(".warptune.{}", ::getpid());
  const OpenFile file(probe, O_WRONLY | O_CREAT | O_EXCL, path);
  fs::remove(probe, error);
} catch (const std::runtime_error& e) {
  throw InputError(e.what());
}

void cut_end(int file, std::size_t bytes, const fs::path& path) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0 || ::ftruncate(file, facts.st_size - static_cast<off_t>(bytes)) != 0)
    throw TextError("'{}' ends in an incomplete line that cannot be removed: {}", path.string(),
                    std::strerror(errno));
}

fs::path keep_beside(const fs::path& path, std::string_view text) {
  const fs::path beside = path.string() + ".cut";
  const OpenFile open(beside, O_WRONLY | O_CREAT | O_APPEND);
  write_and_sync(open.get(), std::string(text) + '\n', beside);
  sync_folder_of(beside);
  return beside;
}

std::string rescue(int file, const fs::path& path) try {
  struct stat open {
  }, named{};
  if (::fstat(file, &open) != 0) fail(path, errno);
  const bool taken = ::stat(path.c_str(), &named) == 0;
  if (taken && named.st_dev == open.st_dev && named.st_ino == open.st_ino) return {};
  if (open.st_nlink > 0)
    return fmt::format("'{}' was moved away while it was written; its rows are in the moved file",
                       path.string());
  const fs::path anew = taken ? fs::path(path.string() + ".rescued") : path;
  replace_file(anew, content_of(file, path));
  return fmt::format("'{}' was deleted while it was written; its rows so far are written anew to '{}'",
                     path.string(), anew.string());
} catch (const std::runtime_error& e) {
  return fmt::format("'{}' was deleted while it was written; its rows are lost: {}", path.string(), e.what());
}

}  // namespace warptune
