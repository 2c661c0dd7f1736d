#pragma once
// Chooses how each problem runs: asks the policies in turn (select/policies.h).
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/select/policies.h"

namespace warptune {

class PlanChooser {
 public:
  /// The table and the facts must outlive it; nothing else of a device is needed.
  PlanChooser(const OpTable& ops, const DeviceFacts& facts, PlanOptions options);
  PlanChooser(const PlanChooser&) = delete;
  PlanChooser& operator=(const PlanChooser&) = delete;

  const OpTable& ops() const { return ops_; }
  const PlanOptions& options() const { return options_; }
  /// Offers what is to be tried, best first, until one is taken: a choice may turn out to need more than the
  /// device has. Returns whether one was. `quiet`: without remarks and reasons.
  bool choose(const Problem& problem, bool quiet, const std::function<bool(const PlanChoice&)>& take);
  /// The time that the wisdom gives or predicts for what it would choose, if anything.
  std::optional<double> expected_us(const Problem& problem) const { return tuned_.expected_us(problem); }
  /// Whether one launch that does everything should be faster than the launches of its parts. Measured times
  /// decide; where only one side was measured, it is taken: a prediction may promise too much.
  bool prefers(const Problem& fused, std::span<const Problem> parts) const;
  /// Remarks on a problem; each is told once.
  void tell(const Problem& problem, const std::string& what);
  /// Notes why an override is not taken.
  void refuse(std::size_t override_index, const std::string& why);
  /// The first reason of each override that was not taken.
  const std::map<std::size_t, std::string>& refused() const { return refused_because_; }

 private:
  class Taker;
  void tell_once(const std::string& what);

  const OpTable& ops_;
  const DeviceFacts& facts_;
  const PlanOptions options_;
  const TunedPlans tuned_;
  const std::vector<std::unique_ptr<Policy>> policies_;
  std::set<std::string> told_;
  std::map<std::size_t, std::string> refused_because_;
};

}  // namespace warptune
