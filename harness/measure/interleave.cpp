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

/// Sets the drift of the candidates that have all rounds, if these are two or more.
void set_drift(std::vector<Samples>& all, std::size_t rounds) {
  const auto has_all = [rounds](const Samples& one) { return one.us.size() == rounds && median(one.us) > 0; };
  if (std::ranges::count_if(all, has_all) < 2) return;
  std::vector<double> drift;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<double> factors;
    for (const Samples& one : all)
      if (has_all(one)) factors.push_back(one.us[round] / median(one.us));
    const double factor = median(factors);
    drift.push_back(factor > 0 ? factor : 1);
  }
  for (Samples& one : all)
    if (has_all(one)) one.drift = drift;
}

}  // namespace

std::vector<Samples> interleave(const InterleaveRule& rule, std::size_t candidates,
                                const std::function<Sample(std::size_t)>& sample, const Seconds& now) {
  const double start = now();
  std::vector<Samples> all(candidates);
  bool late = false, decided = false;
  int round = 0;
  for (; round < rule.rounds && !late && !decided; ++round) {
    for (std::size_t i = 0; i < candidates; ++i)
      if (all[i].stop != Stop::no_time && !take(rule, all[i], [&] { return sample(i); }))
        all[i].stop = Stop::no_time;
    late = round + 1 >= kMinRounds && !(now() - start < rule.max_time);
    decided = rule.is_decided && round + 1 >= kMinSamplesForInterval && rule.is_decided(all);
  }
  set_drift(all, static_cast<std::size_t>(round));
  for (Samples& one : all) {
    one.rel_ci = rel_half_width(sorted_without_drift(one));
    if (one.stop != Stop::no_time && late && !(one.rel_ci <= rule.max_rel_ci)) one.stop = Stop::max_time;
  }
  return all;
}

}  // namespace warptune
