#pragma once
// Watches the clocks of a device during sampling for throttling.
#include <string>
#include <vector>

#include "harness/device/device.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// Whether throttle reasons ("sw_power_cap+hw_slowdown") make a time worthless: heat, a hardware slowdown or
/// a power brake. `sw_power_cap` alone does not: a long kernel reaches the power limit in production too. It
/// stays in the column as a note.
bool is_throttling(const std::string& reasons);

/// Reads clocks and throttle reasons after samples. Limits the reading to a tenth of the time.
class ClockWatch {
 public:
  explicit ClockWatch(const Device& device, Seconds now = steady_seconds)
      : device_(device), now_(std::move(now)), start_(now_()) {}
  double now() const { return now_(); }
  /// Call after each sample; true if the sample is throttled.
  bool throttled();
  /// The median clocks and all reasons of the samples, and the current temperature and power. Reasons of
  /// throttled samples are included only if those were kept.
  Clocks summary(bool kept_throttled) const;

 private:
  const Device& device_;
  Seconds now_;
  double start_ = 0, spent_ = 0;  // seconds; spent reading
  bool last_ = false;
  std::vector<double> sm_mhz_, mem_mhz_;
  std::string notes_, throttling_;  // reasons of readings without and with throttling
  bool known_ = false;              // the device reports reasons
};

}  // namespace warptune
