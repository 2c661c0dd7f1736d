#pragma once
// Samples of a replay until their median is known well enough.
#include <functional>
#include <vector>

namespace warptune {

struct SamplingRule {
  double max_rel_ci = 0.005;  // half-width of the 95 % interval of the median over the median
  int min_samples = 11;
  double max_seconds = 0.25;
};

/// Calls `sample` (one timed replay, in microseconds) until the rule is met; returns the samples in order.
/// At least `min_samples` unless one sample alone takes a quarter of the time, then at least 3.
std::vector<double> sample_until(const SamplingRule& rule, const std::function<double()>& sample);

}  // namespace warptune
