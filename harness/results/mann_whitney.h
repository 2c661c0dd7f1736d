#pragma once
// The Mann-Whitney rank test: do two sets of samples come from the same distribution?
#include <span>
#include <vector>

namespace warptune {

struct MannWhitney {
  double u = 0;        // pairs (a, b) with a > b; equal pairs count one half
  double p = 1;        // two-sided
  bool exact = false;  // p counts arrangements; else it is the normal approximation
};

/// Exact without ties and for at most 25 samples per set; else the normal approximation with continuity and
/// tie corrections (Mann and Whitney 1947; Lehmann, "Nonparametrics", 1.2 and 1.4). p is 1 if a set is empty.
MannWhitney mann_whitney(std::span<const double> a, std::span<const double> b);

/// Holm's step-down correction: adjusted p values to compare with the family-wise alpha.
std::vector<double> holm(std::span<const double> p);

}  // namespace warptune
