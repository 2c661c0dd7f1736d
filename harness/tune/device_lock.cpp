#include "harness/tune/device_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "harness/core/print.h"
#include "harness/tune/locked_clocks.h"

namespace warptune {
namespace {

/// Opens the lock file, readable by all users. A file of another user is opened without O_CREAT, which sticky
/// folders refuse.
int open_shared(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  for (;;) {
    if (const int file = ::open(path.c_str(), kFlags); file >= 0 || errno != ENOENT) return file;
    const int file = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0644);
    if (file >= 0) ::fchmod(file, 0644);
    if (file >= 0 || errno != EEXIST) return file;
  }
}

/// False if a signal interrupts it or the file system has no locks.
bool lock(int file, int operation) {
  int code = 0;
  do code = ::flock(file, operation);
  while (code != 0 && errno == EINTR);
  return code == 0;
}

}  // namespace

std::filesystem::path DeviceLock::file_of(const std::string& id) {
  return std::filesystem::temp_directory_path() / fmt::format("warptune-{}.lock", id);
}

DeviceLock::DeviceLock(const std::string& id, std::FILE* log) {
  if (id == "host") return;
  const auto path = file_of(id);
  file_ = open_shared(path);
  bool held = file_ >= 0 && lock(file_, LOCK_EX | LOCK_NB);
  if (!held && file_ >= 0 && errno == EWOULDBLOCK) {
    print_error(fmt::format("another warptune uses {}; waiting until it has ended", id), log);
    held = lock(file_, LOCK_EX);
  }
  if (!held)
    print_error(fmt::format("{} is not locked against other programs ('{}': {})", id, path.string(),
                            ::strerror(errno)),
                log);
  if (held) reset_left_clocks(id, nvml_clock_control, log);
}

DeviceLock::~DeviceLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace warptune
