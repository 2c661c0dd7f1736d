#pragma once
// One program at a time on a GPU: two programs that time on it disturb each other.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

namespace warptune {

/// Holds a lock file in the machine's folder for temporary files, which every user can lock. The kernel
/// releases it however the program ends.
class DeviceLock {
 public:
  /// Waits while another program holds the lock, with a line on `log`. `id`: DeviceFacts::id. The host is
  /// never locked: everything runs there. If the lock file cannot be opened, the device is not locked and
  /// `log` gets a line. Resets clocks that a killed program left locked.
  explicit DeviceLock(const std::string& id, std::FILE* log = stderr);
  ~DeviceLock();
  DeviceLock(DeviceLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  DeviceLock& operator=(DeviceLock&&) = delete;

  static std::filesystem::path file_of(const std::string& id);

 private:
  int file_ = -1;
};

}  // namespace warptune
