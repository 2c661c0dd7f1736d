#pragma once
// The table of exported plans: boxes of problems, and the plan that each takes.
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/export/launch_model.h"
#include "harness/select/plan_chooser.h"

namespace warptune {

/// A configuration, and how it was chosen.
struct ExportChoice {
  const Variant* variant = nullptr;
  Config config;
  std::string source;  // "exact", "step", "near_step", "runner_up", "nearest" or "default"
  std::string reason = {};
  double time_us = std::numeric_limits<double>::quiet_NaN();  // recorded
  const Winner* winner = nullptr;                             // the recorded one that it comes from
  /// The winner of this problem and architecture that the configuration stands in for.
  const Winner* instead_of = nullptr;
  std::string why_not = {};  // that winner is not exported; may be empty

  /// Whether that winner is lost without a recorded next best.
  bool lost_winner() const { return instead_of && source != "runner_up"; }
};

/// Chooses a configuration that can be exported for a problem: one of kernels only.
class ExportChooser {
 public:
  /// The first three must outlive it. `options` hold the wisdom.
  ExportChooser(const OpTable& ops, const DeviceFacts& facts, const Compiler& compiler, PlanOptions options);

  const DeviceFacts& facts() const { return facts_; }
  const OpTable& ops() const { return chooser_.ops(); }
  /// The problems of the plans that were tuned together in a model's step. For them these plans come first,
  /// and those of a near step (PlanChooser::enter_step()) after them; a problem of several steps takes the
  /// plan of the first.
  std::vector<Problem> add_step(const Problem& step);
  /// One sentence for each step with a winner that may not be used.
  const std::vector<std::string>& lost_steps() const { return lost_steps_; }

  /// As PlanChooser::choose(), without configurations that call a library or do not fit the device. In place
  /// of a winner that calls a library it takes the next best recorded configuration. Throws InputError where
  /// nothing is left.
  ExportChoice choose(const Problem& problem);
  /// The winner of the problem that was tuned on this architecture; null if there is none.
  const Winner* winner_of(const Problem& problem) const;

 private:
  bool compiles(const Variant& variant, const Problem& problem, const Config& config);
  std::optional<ExportChoice> runner_up(const Problem& problem, const Winner& winner);

  const DeviceFacts& facts_;
  const Compiler& compiler_;
  PlanChooser chooser_;
  TunedPlans tuned_;
  std::vector<std::string> lost_steps_;
  std::map<std::string, Problem> steps_, near_steps_;  // by the keys of their problems
};

/// The plan of all problems in a box. The box's upper corner is `problem`.
struct ExportedPlan {
  Problem problem;
  DimBox box;
  ExportChoice choice;
  LaunchModel launch;
  ArgsLayout args;
};

/// What the table covers besides the problems themselves: values of dims of work.
struct Cover {
  std::string dim;
  std::int64_t from = 1, to = 1;
};
/// "tokens=1:4096". Throws InputError.
Cover parse_cover(const std::string& text);

struct PlanTable {
  std::vector<ExportedPlan> plans;
  std::vector<std::string> left_out;  // problems that cannot be exported, each with the reason
  std::vector<std::string>
      lost_winners;  // winners of this architecture, for which nothing or another plan is there
};

/// The table of some problems. Values of a dim of work are cut where a problem has one, and with `covers` at
/// powers of two inside of their ranges, from each cut down to the one below. A cell with a problem at its
/// upper corner takes the choice for that problem, as far down as its kernels serve; with `covers` every cell
/// is filled, and what a choice does not serve is cut and chosen again. Throws InputError where a cover names
/// no dim of work or the table gets too long.
PlanTable make_plan_table(ExportChooser& chooser, const std::vector<Problem>& problems,
                          const std::vector<Cover>& covers);

}  // namespace warptune
