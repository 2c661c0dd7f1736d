#pragma once
// What a search strategy knows of a problem before anything is measured.
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/assignment.h"

namespace warptune {

/// A configuration that may be tried. The resources are there where all was compiled first.
struct SearchCandidate {
  std::string variant;
  Assignment config;
  std::optional<double> registers, shared_bytes, spill_bytes, occupancy_pct;
};

struct SearchSpace {
  std::vector<SearchCandidate> candidates;
  double floor_us = 0;  // no time is below it; 0: unknown
};

/// The configurations of one variant as points: every parameter with more than one value is an axis, on which
/// the values lie in their order, evenly from 0 to 1.
class VariantGrid {
 public:
  VariantGrid(const SearchSpace& space, std::vector<std::size_t> members);

  const std::vector<std::size_t>& members() const { return members_; }  // indices into the candidates
  std::size_t axes() const { return levels_.size(); }
  /// Ranks of a member's values, one per axis.
  const std::vector<int>& ranks(std::size_t member) const { return ranks_[member]; }
  /// The member's point, followed by the product of its values on a logarithmic scale (how much a block has
  /// in hand) and, where known, its occupancy and registers; all from 0 to 1.
  const std::vector<double>& point(std::size_t member) const { return points_[member]; }
  /// Members that differ in one axis alone and are the next ones there that exist.
  std::vector<std::size_t> neighbours(std::size_t member) const;

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
