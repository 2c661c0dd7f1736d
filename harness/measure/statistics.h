#pragma once
// Statistics of samples.
#include <span>
#include <utility>

namespace warptune {

/// The q-quantile of sorted samples, linear between neighbors. NaN for no samples.
double quantile(std::span<const double> sorted, double q);

/// The median of samples in any order. NaN for no samples.
double median(std::span<const double> samples);

/// The smallest number of samples whose range is a 95 % interval of the median: 2 / 2^6 < 5 %.
inline constexpr int kMinSamplesForInterval = 6;

/// The 95 % confidence interval of the median by order statistics (Conover, "Practical Nonparametric
/// Statistics"): assumes independent samples, but no distribution. Fewer than kMinSamplesForInterval samples
/// have no 95 % interval: returns their range.
std::pair<double, double> median_interval(std::span<const double> sorted);

/// Half the width of that interval over the median. 0 if both ends of the interval are equal; infinite if
/// there are too few samples for an interval, or if the median is 0 or not finite; NaN for no samples.
double rel_half_width(std::span<const double> sorted);

}  // namespace warptune
