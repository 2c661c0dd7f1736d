#include "harness/results/writable.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/core/error.h"

namespace warptune {
namespace fs = std::filesystem;

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
