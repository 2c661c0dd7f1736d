#pragma once
// Chooses a plan for each problem: tries the policies in order (docs/choosing.md).
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"
#include "harness/select/tuned_plans.h"

namespace warptune {

class PlanChooser {
 public:
  /// The table and the facts must outlive it. It needs no device.
  PlanChooser(const OpTable& ops, const DeviceFacts& facts, PlanOptions options);
  PlanChooser(const PlanChooser&) = delete;
  PlanChooser& operator=(const PlanChooser&) = delete;

  const OpTable& ops() const { return ops_; }
  const PlanOptions& options() const { return options_; }
  /// Offers choices to `take`, best first, until it takes one: it refuses a choice that needs more than the
  /// device has. Returns whether one was taken. `quiet`: without remarks and reasons.
  bool choose(const Problem& problem, bool quiet, const std::function<bool(const PlanChoice&)>& take);
  /// The recorded time of the choice, if the wisdom has one.
  std::optional<double> expected_us(const Problem& problem) const { return tuned_.expected_us(problem); }
  /// Whether some launches are expected to be faster than others that do the same. Measured times decide. If
  /// only one side is measured, that side wins.
  bool prefers(std::span<const Problem> some, std::span<const Problem> others) const;
  /// From here on choose() prefers the plans of this step: those of fix_step(), else those of the step's
  /// winner in the wisdom, or of a near step (TunedPlans::step()), if all of them may be used. Returns why a
  /// winner's may not be used, else nothing.
  std::string enter_step(const Problem& step);
  void leave_step() { step_ = nullptr; }
  /// Every step takes these plans, whatever the wisdom holds: for a search of the best ones.
  void fix_step(StepPlans plans) { fixed_step_ = std::move(plans); }
  /// The plans of the entered step, or nullptr.
  const StepPlans* step() const { return step_; }
  /// Whether they are of a step with another context: its attention is another problem.
  bool is_near_step() const { return step_ && is_near_step_; }
  /// Whether the problem has a plan that was measured for it: one of the entered step, or its winner.
  bool is_tuned(const Problem& problem) const {
    return (step_ && step_->find(problem)) || tuned_.tuned_us(problem);
  }
  /// As TunedPlans::likely().
  std::vector<std::pair<const Variant*, Config>> likely(const Problem& problem) const {
    return tuned_.likely(problem);
  }
  /// As TunedPlans::fastest().
  std::vector<std::pair<const Variant*, Config>> fastest(const Problem& problem, std::size_t count) const {
    return tuned_.fastest(problem, count);
  }
  /// Reports a remark on a problem; each remark once.
  void tell(const Problem& problem, const std::string& what);
  /// Records why an override is not used.
  void refuse(std::size_t override_index, const std::string& why);
  /// The first reason of each override that was not taken.
  const std::map<std::size_t, std::string>& refused() const { return refused_because_; }

 private:
  class Policies;
  void tell_once(const std::string& what);

  const OpTable& ops_;
  const DeviceFacts& facts_;
  const PlanOptions options_;
  const TunedPlans tuned_;
  const StepPlans* step_ = nullptr;
  bool is_near_step_ = false;
  std::optional<StepPlans> fixed_step_;
  std::set<std::string> told_;
  std::map<std::size_t, std::string> refused_because_;
};

}  // namespace warptune
