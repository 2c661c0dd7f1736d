#pragma once
// Times one replay, and turns samples and failures into a measurement.
#include <functional>

#include "harness/measure/clock_watch.h"
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"

namespace warptune {

/// Runs `body`; a failure of the configuration becomes its status. Throws if the device or another rank
/// is lost.
void guarded(Device& device, Measurement& measurement, const std::function<void()>& body);

/// Times one replay. `flush`: flushes the caches first. Then the device rests, so that it works in
/// `duty_cycle` of the time, and 10 ms after a throttled sample.
Sample timed(Device& device, CapturedGraph& graph, ClockWatch& watch, bool flush, double duty_cycle = 1);

/// The median time of replays in microseconds, after one that is not timed.
double median_us(Device& device, CapturedGraph& graph, int samples);

/// Stores times per launch, their statistics and the notes on sampling; launch_error if there is no sample.
void put_samples(Measurement& measurement, const Samples& samples, int launches, double duty_cycle = 1);

}  // namespace warptune
