#pragma once
// Holds the clocks of GPUs while a sweep times on them, and gives them back however the program ends.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/clock_control.h"
#include "harness/tune/end_signals.h"

namespace warptune {

/// The clocks are reset when this ends, also by an exception or a signal. A file beside the device's lock
/// says that they are locked: after a crash the next program that holds the device lock resets them
/// (reset_left_clocks).
class LockedClocks {
 public:
  /// `ids`: DeviceFacts::id; the device locks are held. Where the driver does not permit it, `log` gets a
  /// line and the GPU runs at its own clocks.
  LockedClocks(const std::vector<std::string>& ids, const ClockRequest& request,
               const OpenClockControl& open = nvml_clock_control, std::FILE* log = stderr);
  ~LockedClocks();
  LockedClocks(const LockedClocks&) = delete;
  LockedClocks& operator=(const LockedClocks&) = delete;

  /// Names the locked clocks; exists while the clocks of the GPU are locked.
  static std::filesystem::path file_of(const std::string& id);

 private:
  struct Gpu {
    std::string id;
    std::unique_ptr<ClockControl> clocks;
    std::vector<ClockDomain> domains = {};  // that are locked
  };
  void lock(const std::string& id, const ClockRequest& request, const OpenClockControl& open);
  static std::string lock(Gpu& gpu, ClockDomain domain, std::optional<unsigned> mhz);
  void reset_all();

  std::FILE* log_;
  std::mutex mutex_;
  std::vector<Gpu> locked_;
  std::optional<EndSignals> signals_;  // last: ends before the rest
};

/// Resets the clocks that a killed program left locked, and writes a line on `log`. The device lock is held.
void reset_left_clocks(const std::string& id, const OpenClockControl& open = nvml_clock_control,
                       std::FILE* log = stderr);

}  // namespace warptune
