#include "harness/measure/interleave.h"

#include <algorithm>
#include <cmath>

#include "harness/measure/statistics.h"

namespace warptune {
namespace {

constexpr int kMinRounds = 3;

/// Takes samples of a candidate until one is kept; false if it returns no time.
bool take(const InterleaveRule& rule, Samples& into, const std::function<Sample()>& sample) {
  for (;;) {
    const Sample one = sample();
    if (!std::isfinite(one.us) || one.us < 0) return false;
    if (one.throttled && into.discarded < rule.max_discarded) {
      ++into.discarded;
      continue;
    }
    into.keep(one);
    return true;
  }
}

}  // namespace

std::vector<Samples> interleave(const InterleaveRule& rule, std::size_t candidates,
                                const std::function<Sample(std::size_t)>& sample, const Seconds& now) {
  const double start = now();
  std::vector<Samples> all(candidates);
  bool late = false, decided = false;
  for (int round = 0; round < rule.rounds && !late && !decided; ++round) {
    for (std::size_t i = 0; i < candidates; ++i)
      if (all[i].stop != Stop::no_time && !take(rule, all[i], [&] { return sample(i); }))
        all[i].stop = Stop::no_time;
    late = round + 1 >= kMinRounds && !(now() - start < rule.max_time);
    decided = rule.is_decided && round + 1 >= kMinSamplesForInterval && rule.is_decided(all);
  }
  for (Samples& one : all) {
    std::vector<double> sorted = one.us;
    std::ranges::sort(sorted);
    one.rel_ci = rel_half_width(sorted);
    if (one.stop != Stop::no_time && late && !(one.rel_ci <= rule.max_rel_ci)) one.stop = Stop::max_time;
  }
  return all;
}

std::vector<double> round_drift(std::span<const Samples> all) {
  std::size_t rounds = 0;
  for (const Samples& one : all) rounds = std::max(rounds, one.us.size());
  std::vector<std::vector<double>> factors(rounds);
  for (const Samples& one : all)
    for (std::size_t round = 0; one.us.size() == rounds && round < rounds; ++round)
      factors[round].push_back(one.us[round] / median(one.us));
  std::vector<double> drift;
  for (const auto& of_round : factors) drift.push_back(of_round.size() < 2 ? 1 : median(of_round));
  return drift;
}

}  // namespace warptune
