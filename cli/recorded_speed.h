#pragma once
// The speed of a plan, with the recorded times and measured peaks for its problem.
#include <optional>

#include "harness/core/variant.h"
#include "harness/measure/speed_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The speed of a problem that takes `time_us`: its rates, its floor on a device with measured peaks, and the
/// times of naive and library variants that the sweep of `winner` recorded.
Speed recorded_speed(const OpEntry& entry, const Problem& problem, double time_us, const Winner* winner,
                     const std::optional<DeviceFacts>& facts);

}  // namespace warptune
