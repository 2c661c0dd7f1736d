#pragma once
// Times one replay, and turns samples into a measurement.
#include "harness/measure/clock_watch.h"
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// Times one replay. `flush`: flushes the caches first. Lets the device cool for 10 ms after a throttled
/// sample.
Sample timed(Device& device, CapturedGraph& graph, ClockWatch& watch, bool flush);

/// Stores times per launch, their statistics and the notes on sampling; launch_error if there is no sample.
void put_samples(Measurement& measurement, const Samples& samples, int launches);

}  // namespace warptune
