#pragma once
// Samples of a replay, and the measurement that they make.
#include "harness/measure/clock_watch.h"
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// One replay. `flush`: the caches, before it. Where the clocks are held down it lets the device cool a
/// little.
Sample timed(Device& device, CapturedGraph& graph, ClockWatch& watch, bool flush);

/// Puts times per launch, their statistics and how the sampling went; launch_error where there is no sample.
void put_samples(Measurement& measurement, const Samples& samples, int launches);

}  // namespace warptune
