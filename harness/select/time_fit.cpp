#include "harness/select/time_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace warptune {

void TimeFit::add(const TimeParts& parts, double time_us, double weight) {
  TimeParts row = parts;
  for (double& part : row) part *= weight / time_us;
  for (std::size_t i = 0; i < kTimeParts; ++i) {
    for (std::size_t j = 0; j < kTimeParts; ++j) products_[i][j] += row[i] * row[j];
    target_[i] += row[i] * weight;
  }
  weights_ += weight * weight;
}

TimeFit::Estimate TimeFit::at(const TimeParts& parts) const {
  double best = 0, time = 0;
  for (unsigned subset = 1; subset < 1u << kTimeParts; ++subset) {
    const auto c = solved(subset);
    if (!c) continue;
    const double explained = std::inner_product(c->begin(), c->end(), target_.begin(), 0.0);
    if (explained <= best) continue;
    best = explained;
    time = std::inner_product(c->begin(), c->end(), parts.begin(), 0.0);
  }
  return {time, std::sqrt(std::max(0.0, 1 - best / weights_))};
}

/// The coefficients of a subset of terms; empty if one is negative or the terms are linearly dependent.
std::optional<TimeParts> TimeFit::solved(unsigned subset) const {
  std::array<TimeParts, kTimeParts> m = products_;
  TimeParts c = target_;
  const auto in = [&](std::size_t i) { return (subset >> i & 1) != 0; };
  for (std::size_t k = 0; k < kTimeParts; ++k) {
    if (!in(k)) continue;
    if (m[k][k] <= 1e-9 * products_[k][k]) return std::nullopt;
    for (std::size_t i = 0; i < kTimeParts; ++i) {
      if (i == k || !in(i)) continue;
      const double factor = m[i][k] / m[k][k];
      for (std::size_t j = k; j < kTimeParts; ++j) m[i][j] -= factor * m[k][j];
      c[i] -= factor * c[k];
    }
  }
  for (std::size_t k = 0; k < kTimeParts; ++k) {
    c[k] = in(k) ? c[k] / m[k][k] : 0;
    if (c[k] < 0) return std::nullopt;
  }
  return c;
}

}  // namespace warptune
