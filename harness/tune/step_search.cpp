#include "harness/tune/step_search.h"

#include <algorithm>
#include <optional>

namespace warptune {
namespace {

Picks with(Picks picks, std::size_t part, std::size_t candidate) {
  picks[part] = candidate;
  return picks;
}

/// The simplest of the candidates that tie with the fastest, if that one is surely faster than the picks.
std::optional<std::size_t> choose(const StepTimer& timer, std::size_t part,
                                  const std::vector<std::pair<std::size_t, StepTrial>>& trials) {
  const auto fastest = std::ranges::min_element(trials, {}, [](const auto& t) { return t.second.ratio; });
  if (fastest == trials.end() || !is_faster(fastest->second)) return std::nullopt;
  std::optional<std::size_t> chosen;
  for (const auto& [candidate, trial] : trials) {
    const bool tied =
        trial.low <= fastest->second.high || trial.ratio <= fastest->second.ratio * (1 + kSameStep);
    if (!tied || !is_faster(trial)) continue;
    if (!chosen || timer.complexity(part, candidate) < timer.complexity(part, *chosen)) chosen = candidate;
  }
  return chosen;
}

/// Exchanges a part until no neighbor that was not timed yet is faster. Returns whether it has changed.
bool exchange(StepTimer& timer, StepSearch& search, std::size_t part, std::size_t size) {
  std::vector<bool> is_timed(size);
  for (bool has_changed = false;; has_changed = true) {
    is_timed[search.picks[part]] = true;
    std::vector<std::pair<std::size_t, StepTrial>> trials;
    for (std::size_t candidate = 0; candidate < size && !timer.time_is_over(); ++candidate) {
      if (is_timed[candidate] || !timer.are_neighbors(part, search.picks[part], candidate)) continue;
      const StepTrial trial = timer.time(search.picks, with(search.picks, part, candidate));
      is_timed[candidate] = true;
      ++search.trials;
      if (trial.ok) trials.emplace_back(candidate, trial);
    }
    const auto chosen = choose(timer, part, trials);
    if (!chosen) return has_changed;
    const Picks next = with(search.picks, part, *chosen);
    ++search.trials;
    if (!is_faster(timer.time(search.picks, next))) return has_changed;
    search.picks = next;
  }
}

/// Exchanges the parts that only the step with another value of an option has, if they were never tried. This
/// step does not change: it is without them.
void exchange_parts_of(StepTimer& timer, StepSearch& search, std::size_t option, std::size_t value,
                       const std::vector<std::size_t>& sizes, std::vector<int>& tried_at, int changes) {
  StepSearch other{.picks = with(search.picks, option, value)};
  ++search.trials;
  if (!timer.time(search.picks, other.picks).ok) return;
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    if (sizes[part] < 2 || tried_at[part] >= 0 || !timer.has_part(other.picks, part)) continue;
    exchange(timer, other, part, sizes[part]);
    tried_at[part] = changes;
  }
  search.trials += other.trials;
  search.picks = with(std::move(other.picks), option, search.picks[option]);
}

}  // namespace

bool is_faster(const StepTrial& trial) { return trial.ok && trial.high < 1 && trial.ratio < 1 - kSameStep; }

StepSearch search_step(StepTimer& timer, const std::vector<std::size_t>& sizes, Picks start, int max_rounds) {
  StepSearch search{.picks = std::move(start)};
  int changes = 0;
  std::vector<int> tried_at(sizes.size(), -1);  // the number of changes when a part was tried last
  for (bool goes_on = true; goes_on && search.rounds < max_rounds; ++search.rounds) {
    goes_on = false;
    for (std::size_t part = 0; part < sizes.size() && !timer.time_is_over(); ++part) {
      if (sizes[part] < 2 || tried_at[part] == changes || !timer.has_part(search.picks, part)) continue;
      goes_on = true;
      if (search.rounds > 0 && timer.is_option(part))
        for (std::size_t value = 0; value < sizes[part] && !timer.time_is_over(); ++value)
          if (value != search.picks[part])
            exchange_parts_of(timer, search, part, value, sizes, tried_at, changes);
      if (exchange(timer, search, part, sizes[part])) ++changes;
      tried_at[part] = changes;
    }
  }
  return search;
}

}  // namespace warptune
