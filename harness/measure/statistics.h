#pragma once
// Statistics of samples as pure functions.
#include <span>
#include <utility>

namespace warptune {

/// The value below which a fraction q of the samples lies, linear between neighbors. NaN for no samples.
double quantile(std::span<const double> sorted, double q);

/// The fewest samples whose whole range is a 95 % interval of the median: 2 / 2^6 < 5 %.
inline constexpr int kFewestForInterval = 6;

/// The 95 % confidence interval of the median by order statistics (Conover, "Practical Nonparametric
/// Statistics"): needs no distribution, only independent samples. Of fewer than kFewestForInterval samples no
/// interval is that sure: their whole range.
std::pair<double, double> median_interval(std::span<const double> sorted);

/// Half the width of that interval over the median: 0 where all samples are the same, infinite where they are
/// too few for an interval, or where the median is 0 or not finite and they are not the same; NaN for no
/// samples.
double rel_half_width(std::span<const double> sorted);

}  // namespace warptune
