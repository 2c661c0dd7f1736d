#pragma once
// Compiles the chosen plan of each problem once, with its workspace.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.h"
#include "harness/device/nvtx.h"
#include "harness/select/plan_chooser.h"

namespace warptune {

/// A plan with its workspace. Launches of one entry must be ordered on one stream.
struct PlanEntry {
  Problem problem;
  std::string variant;
  Config config;
  std::unique_ptr<Plan> plan;
  Buffer workspace;
  NvtxName range;  // the range of its launches: "problem variant"
};

class PlanBook {
 public:
  using Options = PlanOptions;
  /// The table and the device must outlive it.
  PlanBook(const OpTable& ops, Device& device, Options options)
      : device_(device), chooser_(ops, device.facts(), std::move(options)) {}
  const OpTable& ops() const { return chooser_.ops(); }

  /// The plan of a problem. Callers share the entry while one of them holds it. `quiet`: no remarks, for
  /// small problems.
  std::shared_ptr<const PlanEntry> get(const Problem& problem, bool quiet = false);
  /// As PlanChooser::expected_us().
  std::optional<double> expected_us(const Problem& problem) const { return chooser_.expected_us(problem); }
  /// As PlanChooser::prefers().
  bool prefers(std::span<const Problem> some, std::span<const Problem> others) const {
    return chooser_.prefers(some, others);
  }
  /// The sources of the plans made so far, without quiet ones: "tuned" if all are winners of their own
  /// problems, "tuned+7near+2default" if some are, "7near+2default" if none is, "default" if none
  /// comes from the wisdom; "naive"; or "overrides-" and a hash of the overrides. "step" instead of "tuned"
  /// where plans are those of a step that was tuned as a whole, "near_step" where some are of a near one.
  std::string plan_set() const;
  /// The number of plans by source: "9 tuned in the step, 4 of a near step, 3 exact, 8 nearest, 1 default".
  std::string plan_sources() const;
  /// 16 hex digits: equal for the same plans of the same problems, in every process.
  std::string plan_hash() const;
  /// The plans made so far for an op, as "problem variant configuration".
  std::vector<std::string> plans_of(const std::string& op) const;
  /// Keys of the problems whose plan comes neither from the wisdom nor from an override.
  std::vector<std::string> untuned() const;
  /// As PlanChooser::enter_step(), leave_step() and fix_step(); StepScope enters and leaves.
  void enter_step(const Problem& step) { chooser_.enter_step(step); }
  void leave_step() { chooser_.leave_step(); }
  void fix_step(StepPlans plans) { chooser_.fix_step(std::move(plans)); }
  /// Whether an option of the entered step (llama/fusion.h) is on; empty where it has no value.
  std::optional<bool> step_option(std::string_view name) const;
  const Wisdom& wisdom() const { return chooser_.options().wisdom; }
  /// Throws InputError if an override was not used by any plan so far.
  void require_overrides() const;

 private:
  std::size_t count(PlanSource source) const;

  Device& device_;
  PlanChooser chooser_;
  std::map<std::string, std::weak_ptr<const PlanEntry>> entries_;
  struct Made {
    PlanSource source;
    std::string op, plan;
  };
  std::map<std::string, Made> made_;      // by problem key, without quiet ones
  std::set<std::size_t> used_overrides_;  // indices into the options
};

/// While it lives, the plans of a book are those of a model step.
class StepScope {
 public:
  StepScope(PlanBook& book, const Problem& step) : book_(book) { book_.enter_step(step); }
  ~StepScope() { book_.leave_step(); }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  PlanBook& book_;
};

}  // namespace warptune
