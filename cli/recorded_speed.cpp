#include "cli/recorded_speed.h"

#include "harness/core/error.h"
#include "harness/measure/bench.h"
#include "harness/results/published.h"

namespace warptune {

Speed recorded_speed(const OpEntry& entry, const Problem& problem, double time_us, const Winner* winner,
                     const std::optional<DeviceFacts>& facts) {
  Speed speed{.time_us = time_us};
  try {
    const Problem whole = entry.op.problem(problem.dims, problem.dtype);  // with the dims that a file omits
    speed.cost = entry.op.cost(whole);
    if (facts) speed.floor_us = floor_us(*facts, speed.cost, whole);
    if (winner) speed.published = published_time(winner->made_on.device, entry.op, whole.key());
  } catch (const InputError&) {  // dims of another program
  }
  if (!winner) return speed;
  const auto note = [&](const std::string& name, double us) {
    const Variant* variant = entry.find_variant(name);
    speed.note(name, variant && calls_library(*variant), us);
  };
  note(winner->variant, winner->time_us);
  for (const TiedConfig& tied : winner->tied) note(tied.variant, tied.time_us);
  for (const VariantTimes& times : winner->times)
    for (const VariantTimes::Row& row : times.rows) note(times.variant, row.time_us);
  return speed;
}

}  // namespace warptune
