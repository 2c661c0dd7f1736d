#pragma once
// The rules by which winners of several wisdom files become one wisdom: those of `merge`, of `wisdom pull`,
// and of the files of a search path.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// judge() with the code of this program. Computes the source hash of a variant once.
class WinnerJudge {
 public:
  /// `devices`: facts of devices with their measured peaks, the first of a name counts. The table must
  /// outlive it.
  WinnerJudge(const OpTable& ops, std::vector<DeviceFacts> devices = {});

  Judgement judged(const Winner& winner, const Provenance& here) const;
  /// The refusals and warnings of all plans of a step.
  Judgement judged(const StepWinner& step, const Provenance& here) const;
  /// Why no device can have given these times: why_too_fast() of the winner or of a plan of the step, or a
  /// step without plans. Empty if it can.
  std::string why_impossible(const Winner& winner) const;
  std::string why_impossible(const StepWinner& step) const;

 private:
  double impossible_us_of(const Winner& winner) const;

  const OpTable& ops_;
  const std::vector<DeviceFacts> devices_;
  const Compiler compiler_;
  mutable std::map<std::pair<std::string, std::string>, std::string> source_hashes_;  // by op and variant
};

/// The second rule of a merge, after "cold before hot" and "fresh before stale": of two winners the faster
/// one, or the one that is there first.
enum class Prefer { faster, first };

/// A winner that is left out: the key of its problem, its variant and configuration, and why.
struct RefusedWinner {
  std::string winner, reason;
  auto operator<=>(const RefusedWinner&) const = default;
};
RefusedWinner refused_winner(const Winner& winner, std::string reason);
RefusedWinner refused_winner(const StepWinner& step, std::string reason);

/// Merges winners into a wisdom. Leaves out those with a time that their device cannot reach.
class WisdomMerge {
 public:
  /// Winners are stale or not on the device in `here`. All arguments must outlive it.
  WisdomMerge(const WinnerJudge& judge, const Provenance& here, Prefer prefer = Prefer::faster)
      : judge_(judge), here_(here), prefer_(prefer) {}

  /// Adds a winner, or keeps the better one of the same problem and device (is_better()) with its provenance
  /// and ties, and the times of both. Returns whether it is new or replaces the other.
  bool add(Wisdom& into, Winner winner);
  /// Adds a step's winner, or keeps the better one.
  bool add(Wisdom& into, StepWinner step);
  void add(Wisdom& into, const Wisdom& other);

  /// The winners that were left out.
  const std::set<RefusedWinner>& refused() const { return refused_; }

 private:
  template <class AnyWinner>
  bool wins(const AnyWinner& second, const AnyWinner& first) const;
  template <class AnyWinner>
  bool refuses(const AnyWinner& winner);

  const WinnerJudge& judge_;
  const Provenance& here_;
  const Prefer prefer_;
  std::set<RefusedWinner> refused_;
};

}  // namespace warptune
