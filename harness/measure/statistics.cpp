#include "harness/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace warptune {

double quantile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return NAN;
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return quantile(sorted, 0.5);
}

std::pair<double, double> median_interval(std::span<const double> sorted) {
  if (sorted.empty()) return {NAN, NAN};
  // The interval is [sorted[k], sorted[n - 1 - k]] for the largest k with 2 * P(Binomial(n, 1/2) <= k) <= 5
  // %.
  const auto n = static_cast<int>(sorted.size());
  double term = std::pow(0.5, n), tail = 0;
  int first = 0;
  for (int k = 0; k < n / 2; ++k) {
    tail += term;
    if (2 * tail > 0.05) break;
    first = k;
    term *= static_cast<double>(n - k) / (k + 1);
  }
  return {sorted[static_cast<std::size_t>(first)], sorted[static_cast<std::size_t>(n - 1 - first)]};
}

double rel_half_width(std::span<const double> sorted) {
  if (sorted.empty()) return NAN;
  if (sorted.size() < static_cast<std::size_t>(kMinSamplesForInterval)) return INFINITY;
  const auto [low, high] = median_interval(sorted);
  if (low == high) return 0;
  const double median = std::abs(quantile(sorted, 0.5)), half = (high - low) / 2;
  return std::isfinite(median) ? half / median : INFINITY;
}

}  // namespace warptune
