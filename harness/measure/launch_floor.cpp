#include "harness/measure/launch_floor.h"

#include "harness/measure/timed_samples.h"
#include "kernels/support/args.h"

namespace warptune {
namespace {

constexpr int kGraphNodes = 1000;
constexpr int kMinSamples = 21;

Measurement sampled(Device& device, const Plan& plan, int launches, bool flush) {
  const SpinArgs nothing{.nanoseconds = 0};
  const auto replay = device.record([&](Stream stream) {
    for (int i = 0; i < launches; ++i) plan.launch(&nothing, stream);
  });
  device.time_us(*replay);
  ClockWatch watch(device);
  const Samples samples =
      sample_until({.min_samples = kMinSamples}, [&] { return timed(device, *replay, watch, flush); });
  Measurement m;
  put_samples(m, samples, launches);
  m.clocks = watch.summary(samples.throttled > 0);
  return m;
}

}  // namespace

LaunchFloors measure_launch_floors(Device& device) {
  if (device.facts().backend != Backend::cuda) return {};
  const Variant empty{.name = "empty",
                      .idea = "launch floor",
                      .stages = {{"support/stream.cu", "empty", LaunchExpressions{.block = {32}}}}};
  const auto plan = device.prepare(empty, launch_problem(), {});
  return {.graph_node = sampled(device, *plan, kGraphNodes, false),
          .single_launch = sampled(device, *plan, 1, true)};
}

}  // namespace warptune
