#pragma once
// The rules by which winners of several wisdom files become one wisdom: those of `merge`, of `wisdom pull`,
// and of the files of a search path.
#include <map>
#include <string>
#include <utility>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// judge() with the code of this program. Computes the source hash of a variant once.
class WinnerJudge {
 public:
  /// The table must outlive it.
  explicit WinnerJudge(const OpTable& ops);

  Judgement judged(const Winner& winner, const Provenance& here) const;
  /// The refusals and warnings of all plans of a step.
  Judgement judged(const StepWinner& step, const Provenance& here) const;

 private:
  const OpTable& ops_;
  const Compiler compiler_;
  mutable std::map<std::pair<std::string, std::string>, std::string> source_hashes_;  // by op and variant
};

/// The second rule of a merge, after "cold before hot" and "fresh before stale": of two winners the faster
/// one, or the one that is there first.
enum class Prefer { faster, first };

/// Merges winners into a wisdom.
class WisdomMerge {
 public:
  /// Winners are stale or not on the device in `here`. All arguments must outlive it.
  WisdomMerge(const WinnerJudge& judge, const Provenance& here, Prefer prefer = Prefer::faster)
      : judge_(judge), here_(here), prefer_(prefer) {}

  /// Adds a winner, or keeps the better one of the same problem and device (is_better()) with its provenance
  /// and ties, and the times of both. Returns whether it is new or replaces the other.
  bool add(Wisdom& into, const Winner& winner) const;
  /// Adds a step's winner, or keeps the better one.
  bool add(Wisdom& into, const StepWinner& step) const;
  void add(Wisdom& into, const Wisdom& other) const;

 private:
  template <class AnyWinner>
  bool wins(const AnyWinner& second, const AnyWinner& first) const;

  const WinnerJudge& judge_;
  const Provenance& here_;
  const Prefer prefer_;
};

}  // namespace warptune
