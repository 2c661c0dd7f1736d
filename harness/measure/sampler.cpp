#include "measure/sampler.h"

#include <algorithm>
#include <chrono>

#include "measure/statistics.h"

namespace warptune {

std::vector<double> sample_until(const SamplingRule& rule, const std::function<double()>& sample) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::vector<double> samples, sorted;
  for (;;) {
    const double value = sample();
    samples.push_back(value);
    sorted.insert(std::ranges::upper_bound(sorted, value), value);
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    const int enough = value * 1e-6 > rule.max_seconds / 4 ? std::min(3, rule.min_samples) : rule.min_samples;
    const int n = static_cast<int>(samples.size());
    if (n < enough) continue;
    const auto [low, high] = median_interval(sorted);
    if (elapsed >= rule.max_seconds || (high - low) / 2 <= rule.max_rel_ci * quantile(sorted, 0.5))
      return samples;
  }
}

}  // namespace warptune
