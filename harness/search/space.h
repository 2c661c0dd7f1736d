#pragma once
// The search space of a problem: all that a strategy knows before the first measurement.
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/assignment.h"

namespace warptune {

/// A configuration that may be tried. Resources are known if all were compiled first.
struct SearchCandidate {
  std::string variant;
  Assignment config;
  std::optional<double> registers, shared_bytes, spill_bytes, occupancy_pct;
};

struct SearchSpace {
  std::string problem = {};
  std::vector<SearchCandidate> candidates;
  std::map<std::string, std::vector<std::string>> constraints = {};  // that the candidates meet, by variant
  double floor_us = 0;                                               // no time is below it; 0: unknown
  std::vector<std::size_t> likely;  // candidates known to be good elsewhere: a search begins with them
};

/// The configurations of one variant as points. Every parameter with more than one value is an axis; its
/// values are evenly spaced from 0 to 1, in order.
class VariantGrid {
 public:
  VariantGrid(const SearchSpace& space, std::vector<std::size_t> members);

  const std::vector<std::size_t>& members() const { return members_; }  // indices into the candidates
  std::size_t axes() const { return levels_.size(); }
  /// The ranks of a member's values, one per axis.
  const std::vector<int>& ranks(std::size_t member) const { return ranks_[member]; }
  /// The member's point, then the logarithm of the product of its values (the work of a block) and, if known,
  /// occupancy and registers; all scaled to 0 to 1.
  const std::vector<double>& point(std::size_t member) const { return points_[member]; }
  /// The nearest members on each axis that differ in that axis only.
  std::vector<std::size_t> neighbors(std::size_t member) const;

 private:
  void add_axes(const SearchSpace& space);
  void add_feature(const std::vector<double>& values);

  std::vector<std::size_t> members_;
  std::vector<int> levels_;  // values per axis
  std::vector<std::vector<int>> ranks_;
  std::vector<std::vector<double>> points_;
  std::map<std::vector<int>, std::size_t> by_ranks_;
};

/// The candidates of each variant, in the order of their first appearance.
std::vector<VariantGrid> grids_of(const SearchSpace& space);

}  // namespace warptune
