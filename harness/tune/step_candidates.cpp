#include "harness/tune/step_candidates.h"

#include <algorithm>
#include <iterator>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/parallel.h"
#include "harness/llama/fusion_choice.h"
#include "harness/llama/model_problems.h"
#include "harness/results/source_hash.h"
#include "harness/select/tuned_plans.h"
#include "harness/tune/compile_pool.h"

namespace warptune {
namespace {

/// The plan that decode uses, then the fastest recorded ones.
std::vector<PlanCandidate> candidates(PlanChooser& chooser, const Problem& problem, std::size_t count) {
  std::vector<PlanCandidate> all;
  chooser.choose(problem, true, [&](const PlanChoice& choice) {
    all.emplace_back(choice.variant, choice.config);
    return true;
  });
  for (auto& candidate : chooser.fastest(problem, count))
    if (all.size() < count && !contains(all, candidate)) all.push_back(std::move(candidate));
  return all;
}

/// Adds the plan that a recorded step has for the problem, where it has a legal one.
void add_recorded(std::vector<PlanCandidate>& candidates, const Problem& problem, const OpEntry& op,
                  const StepPlans& recorded, const DeviceFacts& facts) {
  const StepPlan* plan = recorded.find(problem);
  const Variant* variant = plan ? op.find_variant(plan->variant) : nullptr;
  if (!variant || why_unfit(*variant, problem, plan->config, facts)) return;
  if (PlanCandidate candidate(variant, plan->config); !contains(candidates, candidate))
    candidates.push_back(std::move(candidate));
}

/// Fills in the resources and the code hash of each plan, and drops plans that do not compile.
void compile_all(std::vector<SearchedPart>& parts, const OpTable& ops, const DeviceFacts& facts,
                 const Compiler& compiler, int jobs) {
  struct Task {
    SearchedPart* part;
    std::size_t index;
    bool failed = false;
  };
  std::vector<Task> tasks;
  for (SearchedPart& part : parts) {
    part.resources.resize(part.plans.size());
    for (std::size_t i = 0; i < part.plans.size(); ++i) tasks.push_back({&part, i});
  }
  const CompilePool::Compile compile = compile_with(compiler, facts);
  parallel_for(tasks.size(), jobs, [&](std::size_t t) {
    Task& task = tasks[t];
    StepPlan& plan = task.part->plans[task.index];
    const Variant& variant = ops.find(plan.problem.op).variant(plan.variant);
    if (!is_compiled(variant)) return;
    try {
      Resources& resources = task.part->resources[task.index];
      resources = compile({&variant, &plan.problem, plan.config});
      plan.code_hash = resources.code_hash;
    } catch (const std::exception&) {  // its row in the sweep of its op has the error
      task.failed = true;
    }
  });
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task)
    if (task->failed) {
      const auto at = static_cast<std::ptrdiff_t>(task->index);
      task->part->plans.erase(task->part->plans.begin() + at);
      task->part->resources.erase(task->part->resources.begin() + at);
    }
}

bool is_naive(const SearchedPart& part) {
  return std::ranges::all_of(part.plans, [](const StepPlan& plan) { return plan.variant == "naive"; });
}

/// A configuration in two parts. A step-only parameter with its first value is left out: a variant without
/// the parameter does the same.
struct SplitConfig {
  Config step_only, others;

  SplitConfig(const OpEntry& op, const StepPlan& plan) {
    for (const Parameter& parameter : op.variant(plan.variant).parameters) {
      const std::int64_t value = value_of(parameter, plan.config);
      if (!parameter.in_step_only)
        others.set(parameter.name, value);
      else if (value != parameter.values.front())
        step_only.set(parameter.name, value);
    }
  }
};

}  // namespace

void add_step_values(std::vector<PlanCandidate>& candidates, const Problem& problem,
                     const DeviceFacts& facts) {
  for (std::size_t i = 0, count = candidates.size(); i < count; ++i) {
    const Variant& variant = *candidates[i].first;
    for (const Parameter& parameter : variant.parameters) {
      if (!parameter.in_step_only) continue;
      for (const std::int64_t value : parameter.values) {
        if (value == value_of(parameter, candidates[i].second)) continue;
        PlanCandidate candidate(&variant, candidates[i].second);
        candidate.second.set(parameter.name, value);
        if (!contains(candidates, candidate) && !why_unfit(variant, problem, candidate.second, facts))
          candidates.push_back(std::move(candidate));
      }
    }
  }
}

bool are_neighbors(const OpEntry& op, const StepPlan& a, const StepPlan& b) {
  const SplitConfig split_a(op, a), split_b(op, b);
  return split_a.step_only == split_b.step_only ||
         (a.variant == b.variant && split_a.others == split_b.others);
}

bool is_worth_trying(const FusionOption& option, std::span<const SearchedPart> parts) {
  bool has_problems = false, is_tuned = false, all_naive = true;
  for (const SearchedPart& part : parts) {
    all_naive &= is_naive(part);
    const auto dim = part.problem.dims.find(option.dim);
    if (dim == nullptr || dim->label != option.label) continue;
    has_problems = true;
    is_tuned |= !is_naive(part);
  }
  return has_problems && (is_tuned || all_naive);
}

std::vector<SearchedPart> step_parts(PlanChooser& chooser, const StepItem& item, const DeviceFacts& facts,
                                     const Compiler& compiler, int jobs) {
  std::vector<SearchedPart> parts;
  const OpTable& ops = chooser.ops();
  const StepSpec& spec = item.spec;
  const std::int64_t contexts[] = {spec.context};
  const StepWinner* recorded =
      chooser.options().wisdom.nearest_step(step_problem(spec), facts.arch, facts.name);
  for (Problem& problem : decode_problems(ops, spec.model, spec.dtype, spec.batch, contexts, spec.kv)) {
    const OpEntry& op = ops.find(problem.op);
    SearchedPart part;
    auto all = candidates(chooser, problem, static_cast<std::size_t>(item.candidates));
    add_step_values(all, problem, facts);
    if (recorded) add_recorded(all, problem, op, recorded->plans, facts);
    for (const auto& [variant, config] : all)
      part.plans.push_back({.problem = problem,
                            .variant = variant->name,
                            .config = config,
                            .source_hash = source_hash(compiler, op, *variant)});
    part.problem = std::move(problem);
    parts.push_back(std::move(part));
  }
  compile_all(parts, ops, facts, compiler, jobs);
  std::erase_if(parts, [](const SearchedPart& part) { return part.size() == 0; });
  std::vector<SearchedPart> options;
  for (const FusionOption& option : kFusionOptions)
    if (is_worth_trying(option, parts)) options.push_back({.option = std::string(option.name)});
  parts.insert(parts.begin(), std::make_move_iterator(options.begin()),
               std::make_move_iterator(options.end()));
  return parts;
}

Picks untuned_picks(const PlanChooser& chooser, const StepItem& item,
                    const std::vector<SearchedPart>& parts) {
  const StepSpec& spec = item.spec;
  const ModelProblems problems(chooser.ops(), spec.model, spec.dtype, spec.kv);
  const auto prefers = [&](auto some, auto others) { return chooser.prefers(some, others); };
  Fusion fusion = choose_fusion({}, problems, prefers, spec.batch, spec.context, true);
  StepPlans step;
  for (std::size_t i = 0; i < kFusionOptions.size(); ++i)
    set_option(step.options, kFusionOptions[i].name, *fusion.all()[i]);
  return picks_of(step, parts, Picks(parts.size(), 0));
}

Picks picks_of(const StepPlans& step, const std::vector<SearchedPart>& parts, Picks start) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SearchedPart& part = parts[i];
    if (!part.option.empty()) {
      start[i] = step.options.get(part.option, 0) == 0 ? 0 : 1;
    } else if (const StepPlan* plan = step.find(part.problem)) {
      const auto same = [&](const StepPlan& p) { return p.str() == plan->str(); };
      if (const auto at = std::ranges::find_if(part.plans, same); at != part.plans.end())
        start[i] = static_cast<std::size_t>(at - part.plans.begin());
    }
  }
  return start;
}

StepPlans assembled(const std::vector<SearchedPart>& parts, const Picks& picks) {
  StepPlans step;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].option.empty())
      step.plans.push_back(parts[i].plans[picks[i]]);
    else
      set_option(step.options, parts[i].option, picks[i] != 0);
  }
  return step;
}

}  // namespace warptune
