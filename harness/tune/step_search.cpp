#include "harness/tune/step_search.h"

#include <algorithm>
#include <optional>

namespace warptune {
namespace {

constexpr std::size_t kPairCandidates = 3;  // of a part
constexpr double kMatters = 0.01;           // a spread of candidates, in parts of the step's time

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

/// Exchanges parts of a step, one at a time or two.
class Exchange {
 public:
  Exchange(StepTimer& timer, const std::vector<std::size_t>& sizes, StepSearch& search)
      : timer_(timer),
        sizes_(sizes),
        search_(search),
        tried_at_(sizes.size(), -1),
        spread_(sizes.size(), 0) {}

  /// Each part that the step has, unless nothing has changed since it was tried. Returns whether there was
  /// one.
  bool single_parts() {
    bool any = false;
    for (std::size_t part = 0; part < sizes_.size(); ++part) {
      if (sizes_[part] < 2 || tried_at_[part] == changes_ || !timer_.has_part(search_.picks, part)) continue;
      any = true;
      std::vector<std::pair<std::size_t, StepTrial>> trials;
      for (std::size_t candidate = 0; candidate < sizes_[part]; ++candidate) {
        if (candidate == search_.picks[part]) continue;
        const StepTrial trial = time(with(search_.picks, part, candidate));
        if (trial.ok) trials.emplace_back(candidate, trial);
      }
      spread_[part] = spread(trials);
      if (const auto chosen = choose(timer_, part, trials)) take(with(search_.picks, part, *chosen));
      tried_at_[part] = changes_;
    }
    return any;
  }

  /// The first candidates of every two plans that matter. Returns whether one of the pairs was taken.
  bool pairs() {
    const int before = changes_;
    const auto matters = [&](std::size_t part) {
      return spread_[part] >= kMatters && timer_.is_plan(part) && timer_.has_part(search_.picks, part);
    };
    for (std::size_t a = 0; a < sizes_.size(); ++a)
      for (std::size_t b = a + 1; b < sizes_.size(); ++b)
        if (matters(a) && matters(b))
          if (const auto picks = fastest_pair(a, b)) take(*picks);
    return changes_ != before;
  }

 private:
  StepTrial time(const Picks& picks) {
    ++search_.trials;
    return timer_.time(search_.picks, picks);
  }
  /// Times the picks once more: the fastest of many samples is too often a lucky one.
  void take(const Picks& picks) {
    if (!is_faster(time(picks))) return;
    search_.picks = picks;
    ++changes_;
  }
  /// Between the slowest and the fastest candidate, in parts of the step's time.
  static double spread(const std::vector<std::pair<std::size_t, StepTrial>>& trials) {
    double low = 1, high = 1;
    for (const auto& [candidate, trial] : trials) {
      low = std::min(low, trial.ratio);
      high = std::max(high, trial.ratio);
    }
    return high - low;
  }
  std::optional<Picks> fastest_pair(std::size_t a, std::size_t b) {
    std::optional<Picks> fastest;
    double ratio = 1;
    for (std::size_t i = 0; i < std::min(sizes_[a], kPairCandidates); ++i)
      for (std::size_t j = 0; j < std::min(sizes_[b], kPairCandidates); ++j) {
        if (i == search_.picks[a] || j == search_.picks[b]) continue;
        const Picks picks = with(with(search_.picks, a, i), b, j);
        const StepTrial trial = time(picks);
        if (!is_faster(trial) || trial.ratio >= ratio) continue;
        fastest = picks;
        ratio = trial.ratio;
      }
    return fastest;
  }

  StepTimer& timer_;
  const std::vector<std::size_t>& sizes_;
  StepSearch& search_;
  int changes_ = 0;
  std::vector<int> tried_at_;   // the number of changes when a part was tried last
  std::vector<double> spread_;  // of a part's candidates
};

}  // namespace

bool is_faster(const StepTrial& trial) { return trial.ok && trial.high < 1 && trial.ratio < 1 - kSameStep; }

StepSearch search_step(StepTimer& timer, const std::vector<std::size_t>& sizes, Picks start, int max_rounds) {
  StepSearch search{.picks = std::move(start)};
  Exchange exchange(timer, sizes, search);
  for (bool goes_on = true; goes_on && search.rounds < max_rounds; ++search.rounds)
    goes_on = exchange.single_parts() || exchange.pairs();
  return search;
}

}  // namespace warptune
