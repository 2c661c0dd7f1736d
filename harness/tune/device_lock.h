#pragma once
// One program at a time on a GPU: two that time there disturb each other.
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

namespace warptune {

/// Holds a lock file of the machine's folder for temporary files, which every user of the machine can take.
/// The kernel releases it however the program ends.
class DeviceLock {
 public:
  /// Waits, with a line on `log`, while another program holds it. `id`: DeviceFacts::id. The host is never
  /// locked, since everything runs there; nor is a device whose lock file cannot be opened, with a line.
  explicit DeviceLock(const std::string& id, std::FILE* log = stderr);
  ~DeviceLock();
  DeviceLock(DeviceLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  DeviceLock& operator=(DeviceLock&&) = delete;

  static std::filesystem::path file_of(const std::string& id);

 private:
  int file_ = -1;
};

}  // namespace warptune
