#pragma once
// The parts of a model's decode step that a search exchanges: its options, and the plan of each problem.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/compile.h"
#include "harness/llama/fusion.h"
#include "harness/results/wisdom.h"
#include "harness/select/plan_chooser.h"
#include "harness/tune/step_search.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

/// A part and its candidates; an option has the candidates no and yes.
struct SearchedPart {
  std::string option;           // its name; empty: the part is a plan
  Problem problem = {};         // that a plan solves
  std::vector<StepPlan> plans;  // the first is what decode uses without a tuned step
  std::vector<Resources> resources;

  std::size_t size() const { return option.empty() ? plans.size() : 2; }
};

/// A variant and the configuration that a step may run a problem with.
using PlanCandidate = std::pair<const Variant*, Config>;

/// Adds each candidate with the other legal values of its step-only parameters, one changed at a time.
void add_step_values(std::vector<PlanCandidate>& candidates, const Problem& problem,
                     const DeviceFacts& facts);

/// Whether two plans of a problem have the same values of the step-only parameters, or the same variant and
/// other parameters. A search over all combinations of both takes several times as long.
bool are_neighbors(const OpEntry& op, const StepPlan& a, const StepPlan& b);

/// Whether the step has problems of an option, and more than naive kernels for them, unless it has nothing
/// else: a naive kernel beside tuned ones makes the step many times slower.
bool is_worth_trying(const FusionOption& option, std::span<const SearchedPart> parts);

/// All parts of a step, first the options that are worth a trial. The candidates of a problem are the plan
/// that decode uses without a tuned step and the fastest recorded ones of the wisdom that compile,
/// `item.candidates` in all, each with the other values of its step-only parameters, and the plan of the
/// nearest recorded step (Wisdom::nearest_step()); the wisdom is that of the chooser. They are compiled on
/// `jobs` threads, so that the worker finds their machine code in the cache.
std::vector<SearchedPart> step_parts(PlanChooser& chooser, const StepItem& item, const DeviceFacts& facts,
                                     const Compiler& compiler, int jobs);

/// What decode takes without a tuned step: the first plans, and the options that are faster by the wisdom.
Picks untuned_picks(const PlanChooser& chooser, const StepItem& item, const std::vector<SearchedPart>& parts);

/// The picks of the options and plans of `step`: options that it lacks are off, plans those of `start`.
Picks picks_of(const StepPlans& step, const std::vector<SearchedPart>& parts, Picks start);

/// The step with these picks.
StepPlans assembled(const std::vector<SearchedPart>& parts, const Picks& picks);

}  // namespace warptune
