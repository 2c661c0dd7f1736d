#include "results/wisdom_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Held while the file is read and written. The file itself is renamed over, so the lock is one beside it.
class Lock {
 public:
  explicit Lock(const fs::path& path) {
    const fs::path beside = path.string() + ".lock";
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    file_ = ::open(beside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0)
      throw std::runtime_error(
          fmt::format("'{}' cannot be written: {}", beside.string(), std::strerror(errno)));
    ::flock(file_, LOCK_EX);
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_ = -1;
};

Wisdom reread(const fs::path& path, const Provenance& provenance) {
  Wisdom wisdom(provenance);
  if (fs::exists(path)) {
    const Wisdom before = Wisdom::load(path);
    for (const Winner& winner : before.winners()) wisdom.put(winner);
  }
  return wisdom;
}

}  // namespace

void put_winner(const fs::path& path, const Provenance& provenance, const Winner& winner) {
  const Lock lock(path);
  Wisdom wisdom = reread(path, provenance);
  wisdom.put(winner);
  wisdom.save(path);
}

void open_wisdom(const fs::path& path, const Provenance& provenance) {
  const Lock lock(path);
  reread(path, provenance).save(path);
}

}  // namespace warptune
