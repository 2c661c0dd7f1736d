#pragma once
// A launch under steady load: its energy, the power of the device, and its time then.
#include "harness/device/device.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// How long a load lasts before a time counts as sustained: clocks, power and heat have settled then.
inline constexpr double kSustainedSeconds = 10;

/// NaN where the device has no energy counter.
struct LoadEnergy {
  double launch_uj = __builtin_nan(""), power_w = __builtin_nan("");
};

/// Replays a graph of `launches` launches back to back: for `warm_up` seconds, and then for at least half a
/// second, in which it measures. That part begins and ends where the device's counter moves, which some do
/// only ten times a second. Without a counter only the warm-up is replayed. Ranks of a group replay equally
/// often.
LoadEnergy energy_under_load(Device& device, CapturedGraph& graph, int launches, const Seconds& now,
                             double warm_up = 0);

/// The median time of a launch, in microseconds, of samples between which the graph is replayed back to back,
/// so that the load goes on. `flush`: flushes the caches before each sample.
double time_under_load(Device& device, CapturedGraph& graph, int launches, bool flush);

}  // namespace warptune
