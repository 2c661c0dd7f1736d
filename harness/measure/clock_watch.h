#pragma once
// The clocks of a device while it is sampled, and whether they were held down.
#include <chrono>
#include <string>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// Whether reasons ("sw_power_cap+hw_slowdown") make a time worthless: heat, a slowdown by hardware or a
/// power brake. `sw_power_cap` alone does not: a GPU at its power limit is how a long kernel runs in service
/// too; it stays in the column as a note.
bool held_down(const std::string& reasons);

/// Reads clock and reasons after samples, as often as keeps the reading below a tenth of the time.
class ClockWatch {
 public:
  explicit ClockWatch(const Device& device) : device_(device) {}
  /// To be called after a sample: whether it is to be discarded.
  bool throttled();
  /// Median clock and all reasons of the samples, temperature and power of now. `kept_throttled`: whether
  /// throttled samples were kept; if not, their reasons are left out.
  Clocks summary(bool kept_throttled) const;

 private:
  using Clock = std::chrono::steady_clock;
  const Device& device_;
  const Clock::time_point start_ = Clock::now();
  Clock::duration spent_{};
  bool last_ = false;
  std::vector<double> sm_mhz_;
  std::string notes_, throttling_;  // reasons of readings that are not, and that are, throttled
  bool known_ = false;              // the device tells reasons
};

}  // namespace warptune
