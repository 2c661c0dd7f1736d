#pragma once
// Finds the winner of a problem in a wisdom, or that of the nearest problem.
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
  /// The best match here: this problem on this device, on this architecture; the nearest problem on this
  /// device, on this architecture; then either from anywhere, for judge() (results/staleness.h) to refuse.
  /// The nearest has the same op, dtype, labels and shape: only dims that say how much work there is
  /// (DimRole::work) may differ, each by a factor of at most 8; the smallest sum over them of |log2(a / b)|.
  /// `left_out`: as if this problem had no winner.
  Match find(const Problem& problem, const Provenance& here, const Problem* left_out = nullptr) const;

 private:
  /// Where a winner was made. The first is preferred.
  enum class Origin { this_device, this_arch, elsewhere, nowhere };
  struct Candidate {
    const Winner* winner = nullptr;
    Origin origin = Origin::nowhere;
  };
  static Origin origin_of(const Winner& winner, const Provenance& here);
  Candidate exact_match(const Problem& problem, const Provenance& here) const;
  Candidate nearest_match(const Problem& problem, const Provenance& here, const Problem* left_out) const;
  /// The problem without how much work there is.
  Problem shape_of(Problem problem) const;

  const OpTable& ops_;
  const Wisdom& wisdom_;
  ProblemIndex by_shape_;
};

}  // namespace warptune
