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

/// One search: the picks so far, and when each part was tried.
class Searcher {
 public:
  Searcher(StepTimer& timer, const std::vector<std::size_t>& sizes, Picks start)
      : timer_(timer), sizes_(sizes), search_{.picks = std::move(start)}, tried_at_(sizes.size(), -1) {}

  StepSearch run(int max_rounds) {
    for (bool goes_on = true; goes_on && search_.rounds < max_rounds; ++search_.rounds) {
      goes_on = false;
      for (std::size_t part = 0; part < sizes_.size() && !timer_.time_is_over(); ++part) {
        if (sizes_[part] < 2 || tried_at_[part] == changes_ || !timer_.has_part(search_.picks, part))
          continue;
        goes_on = true;
        if (search_.rounds > 0 && timer_.is_option(part)) exchange_parts_of(part);
        if (exchange(search_.picks, part)) ++changes_;
        tried_at_[part] = changes_;
      }
    }
    return std::move(search_);
  }

 private:
  /// Exchanges a part of `picks` until no neighbor that was not timed yet is faster. Returns whether it has
  /// changed.
  bool exchange(Picks& picks, std::size_t part) {
    std::vector<bool> is_timed(sizes_[part]);
    for (bool has_changed = false;; has_changed = true) {
      is_timed[picks[part]] = true;
      std::vector<std::pair<std::size_t, StepTrial>> trials;
      for (std::size_t candidate = 0; candidate < sizes_[part] && !timer_.time_is_over(); ++candidate) {
        if (is_timed[candidate] || !timer_.are_neighbors(part, picks[part], candidate)) continue;
        const StepTrial trial = time(picks, with(picks, part, candidate));
        is_timed[candidate] = true;
        if (trial.ok) trials.emplace_back(candidate, trial);
      }
      const auto chosen = choose(timer_, part, trials);
      if (!chosen) return has_changed;
      const Picks next = with(picks, part, *chosen);
      if (!is_faster(time(picks, next))) return has_changed;
      picks = next;
    }
  }
  /// Exchanges the untried parts that only steps with another value of an option have. The step so far is
  /// without them and does not change.
  void exchange_parts_of(std::size_t option) {
    const std::size_t value_so_far = search_.picks[option];
    for (std::size_t value = 0; value < sizes_[option] && !timer_.time_is_over(); ++value) {
      if (value == value_so_far) continue;
      Picks other = with(search_.picks, option, value);
      if (!time(search_.picks, other).ok) continue;
      for (std::size_t part = 0; part < sizes_.size(); ++part) {
        if (sizes_[part] < 2 || tried_at_[part] >= 0 || !timer_.has_part(other, part)) continue;
        exchange(other, part);
        tried_at_[part] = changes_;
      }
      search_.picks = with(std::move(other), option, value_so_far);
    }
  }
  StepTrial time(const Picks& incumbent, const Picks& candidate) {
    ++search_.trials;
    return timer_.time(incumbent, candidate);
  }

  StepTimer& timer_;
  const std::vector<std::size_t>& sizes_;
  StepSearch search_;
  std::vector<int> tried_at_;  // the number of changes when a part was tried last; -1: never
  int changes_ = 0;
};

}  // namespace

bool is_faster(const StepTrial& trial) { return trial.ok && trial.high < 1 && trial.ratio < 1 - kSameStep; }

StepSearch search_step(StepTimer& timer, const std::vector<std::size_t>& sizes, Picks start, int max_rounds) {
  return Searcher(timer, sizes, std::move(start)).run(max_rounds);
}

}  // namespace warptune
