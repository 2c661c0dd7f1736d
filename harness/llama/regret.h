#pragma once
// How much slower what the wisdom chooses is than the best of an exhaustive search.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/llama/plan_chooser.h"

namespace warptune {

struct Regret {
  std::string problem, best, chosen;  // "variant config"
  PlanSource source = PlanSource::fallback;
  double best_us = 0, chosen_us = 0;  // chosen_us: 0 where the search did not time it
  double value() const { return chosen_us / best_us - 1; }
};

/// Of each problem of a sweep's CSV that was timed cold, in the CSV's order: what PlanChooser takes with a
/// wisdom that does not know the problem itself. Finalists are held against finalists, which were timed in
/// turn, all others' first times against first times. Throws InputError.
std::vector<Regret> regrets(const std::filesystem::path& csv, const Wisdom& wisdom, StaleCode stale);

}  // namespace warptune
