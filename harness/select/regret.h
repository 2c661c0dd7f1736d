#pragma once
// How much slower what the wisdom chooses is than the best of an exhaustive search.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/select/plan_choice.h"

namespace warptune {

struct Regret {
  std::string problem, best, chosen;  // "variant config"
  PlanSource source = PlanSource::fallback;
  double best_us = 0, chosen_us = 0;  // chosen_us: 0 where the search did not time it
  double value() const { return chosen_us / best_us - 1; }
};

/// For each problem of a sweep's CSV that was timed cold, in the CSV's order: what PlanChooser takes with a
/// wisdom that does not know the problem itself. Finalists are compared with finalists, which were timed in
/// turn, all others by their first times. `measured`: the measured peaks of a device, where they are stored.
/// Throws InputError.
using MeasuredPeaks = std::function<std::optional<DeviceFacts>(const DeviceFacts&)>;
std::vector<Regret> regrets(const OpTable& ops, const std::filesystem::path& csv, const Wisdom& wisdom,
                            StaleCode stale, const MeasuredPeaks& measured);

}  // namespace warptune
