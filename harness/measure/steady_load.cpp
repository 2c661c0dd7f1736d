#include "harness/measure/steady_load.h"

#include <cmath>
#include <utility>
#include <vector>

#include "harness/measure/statistics.h"

namespace warptune {
namespace {

constexpr double kLoadSeconds = 0.5, kMaxWait = 2.5;  // for the counter to move
constexpr int kReplays = 8;  // between two readings of the counter, so that the device is never idle for long
constexpr int kLoadedSamples = 21;

void replay(Device& device, CapturedGraph& graph) {
  for (int i = 0; i < kReplays; ++i) graph.launch(device.stream());
}

class SteadyLoad {
 public:
  struct Reading {
    double joules = 0, seconds = 0;
  };
  SteadyLoad(Device& device, CapturedGraph& graph, const Seconds& now)
      : device_(device), graph_(graph), now_(now) {}

  /// Replays for at least `seconds` and until the counter moves; returns its value then.
  Reading run(double seconds) {
    const double start = now_();
    Reading reading{device_.energy_j(), start};
    for (bool more = true; more;) {
      replay(device_, graph_);
      device_.synchronize();
      replays_ += kReplays;
      const double before = std::exchange(reading, {device_.energy_j(), now_()}).joules;
      const double passed = reading.seconds - start;
      const bool is_done = passed >= seconds && reading.joules != before;
      more = device_.largest(is_done || passed > seconds + kMaxWait ? 0 : 1) > 0;
    }
    return reading;
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

LoadEnergy energy_under_load(Device& device, CapturedGraph& graph, int launches, const Seconds& now,
                             double warm_up) {
  const bool counts = device.largest(std::isfinite(device.energy_j()) ? 0 : 1) == 0;
  if (!counts && warm_up == 0) return {};
  SteadyLoad load(device, graph, now);
  const auto before = load.run(warm_up);
  if (!counts) return {};
  load.take_replays();
  const auto after = load.run(kLoadSeconds);
  const double joules = after.joules - before.joules;
  if (!(joules > 0)) return {};
  return {.launch_uj = 1e6 * joules / (load.take_replays() * launches),
          .power_w = joules / (after.seconds - before.seconds)};
}

double time_under_load(Device& device, CapturedGraph& graph, int launches, bool flush) {
  std::vector<double> times;
  while (times.size() < kLoadedSamples) {
    replay(device, graph);
    if (flush) device.flush_cache(device.stream());
    times.push_back(device.time_us(graph));
  }
  return median(times) / launches;
}

}  // namespace warptune
