#pragma once
// The regret of a choice: how much slower it is than the best configuration of an exhaustive search.
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
  double best_us = 0, chosen_us = 0;  // chosen_us is 0 if the search did not time it
  double value() const { return chosen_us / best_us - 1; }
};

/// The regret of PlanChooser for each problem that was timed cold, in the order of the CSV, with a wisdom
/// without the problem itself and without variants that the search did not try; a parameter that is 0 in all
/// its rows is judged with 0. Two finalists are compared by their interleaved times, all others by their
/// first times. `measured` returns the stored peaks of a device. Throws InputError.
using MeasuredPeaks = std::function<std::optional<DeviceFacts>(const DeviceFacts&)>;
std::vector<Regret> regrets(const OpTable& ops, const std::filesystem::path& csv, const Wisdom& wisdom,
                            StaleCode stale, const MeasuredPeaks& measured);

}  // namespace warptune
