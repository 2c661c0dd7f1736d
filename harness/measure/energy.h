#pragma once
// The energy of a launch under steady load.
#include "harness/device/device.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// Replays a graph of `launches` launches back to back and divides the device's energy by them: microjoules.
/// The load lasts at least half a second and begins and ends where the device's counter moves, which some do
/// only ten times a second. NaN where a device has no counter. Ranks of a group replay equally often.
double energy_per_launch_uj(Device& device, CapturedGraph& graph, int launches, const Seconds& now);

}  // namespace warptune
