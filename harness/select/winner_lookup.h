#pragma once
// Finds the winner of a problem, or of the nearest problem, in a wisdom.
#include "harness/core/op_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

class WinnerLookup {
 public:
  /// Both must outlive it, and the wisdom must not change.
  WinnerLookup(const OpTable& ops, const Wisdom& wisdom);

  struct Match {
    const Winner* winner = nullptr;
    bool exact = false;
  };
  /// The best match, in this order: the problem itself on this device, then on this architecture; the nearest
  /// problem on this device, then on this architecture; then either from anywhere, which judge()
  /// (results/staleness.h) refuses. The nearest problem has the same op, dtype, labels and shape. Only dims
  /// of DimRole::work differ, each by a factor of at most 8, with the smallest sum of |log2(a / b)|.
  /// `left_out`: ignores the winner of this problem.
  Match find(const Problem& problem, const Provenance& here, const Problem* left_out = nullptr) const;

 private:
  /// Where a winner was tuned, in order of preference.
  enum class Origin { this_device, this_arch, elsewhere, nowhere };
  struct Candidate {
    const Winner* winner = nullptr;
    Origin origin = Origin::nowhere;
  };
  static Origin origin_of(const Winner& winner, const Provenance& here);
  Candidate exact_match(const Problem& problem, const Provenance& here) const;
  Candidate nearest_match(const Problem& problem, const Provenance& here, const Problem* left_out) const;
  /// The problem without its dims of DimRole::work.
  Problem shape_of(Problem problem) const;

  const OpTable& ops_;
  const Wisdom& wisdom_;
  ProblemIndex by_shape_;
};

}  // namespace warptune
