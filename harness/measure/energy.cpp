#include "harness/measure/energy.h"

#include <cmath>
#include <utility>

namespace warptune {
namespace {

constexpr double kLoadSeconds = 0.5, kMaxSeconds = 3;
constexpr int kReplays = 8;  // between two readings of the counter, so that the device is never idle for long

class SteadyLoad {
 public:
  SteadyLoad(Device& device, CapturedGraph& graph, const Seconds& now)
      : device_(device), graph_(graph), now_(now) {}

  /// Replays for at least `seconds` and until the counter moves; returns its value then.
  double run(double seconds) {
    const double start = now_();
    double joules = device_.energy_j();
    for (bool more = true; more;) {
      for (int i = 0; i < kReplays; ++i) graph_.launch(device_.stream());
      device_.synchronize();
      replays_ += kReplays;
      const double before = std::exchange(joules, device_.energy_j()), passed = now_() - start;
      const bool is_done = passed >= seconds && joules != before;
      more = device_.largest(is_done || passed > kMaxSeconds ? 0 : 1) > 0;
    }
    return joules;
  }
  /// Since the last call.
  double take_replays() { return static_cast<double>(std::exchange(replays_, 0)); }

 private:
  Device& device_;
  CapturedGraph& graph_;
  const Seconds& now_;
  long long replays_ = 0;
};

}  // namespace

double energy_per_launch_uj(Device& device, CapturedGraph& graph, int launches, const Seconds& now) {
  if (device.largest(std::isfinite(device.energy_j()) ? 0 : 1) > 0) return NAN;
  SteadyLoad load(device, graph, now);
  const double before = load.run(0);
  load.take_replays();
  const double joules = load.run(kLoadSeconds) - before;
  return joules > 0 ? 1e6 * joules / (load.take_replays() * launches) : NAN;
}

}  // namespace warptune
