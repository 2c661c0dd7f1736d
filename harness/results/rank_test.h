#pragma once
// The Mann-Whitney rank test as a pure function: do two sets of samples come from one distribution?
#include <span>
#include <vector>

namespace warptune {

struct RankTest {
  double u = 0;        // pairs (a, b) with a > b; equal pairs count one half
  double p = 1;        // two-sided
  double least_p = 1;  // what two sets of these sizes that do not overlap at all would give
  bool exact = false;  // by counting arrangements; else by the normal approximation
};

/// Exact where nothing is tied and both sets have at most 25 samples; else the normal approximation with
/// continuity and tie corrections (Mann and Whitney 1947; Lehmann, "Nonparametrics", 1.2 and 1.4). Nothing is
/// known (p = 1) where a set is empty.
RankTest mann_whitney(std::span<const double> a, std::span<const double> b);

/// Holm's step-down correction: the adjusted p of each, to be compared with the level of the whole family.
std::vector<double> holm(std::span<const double> p);

}  // namespace warptune
