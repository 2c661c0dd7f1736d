#include "harness/tune/winners_sweep.h"

#include <fmt/format.h>

#include <map>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/pattern.h"
#include "harness/tune/sweep_models.h"

namespace warptune {

std::vector<Winner> winners_of(const OpTable& ops, const Wisdom& wisdom, const std::string& problem,
                               bool may_be_none) {
  std::vector<Winner> chosen;
  const ProblemPattern pattern(problem);
  for (const Winner& winner : wisdom.winners())
    if (pattern.is_in(ops, winner.problem.key())) chosen.push_back(winner);
  if (chosen.empty() && !may_be_none)
    throw InputError(problem.empty() ? std::string("the wisdom holds no winners")
                                     : fmt::format("no problem of the wisdom matches '{}'", problem));
  return chosen;
}

std::vector<StepWinner> steps_of(const OpTable& ops, const Wisdom& wisdom, const std::string& problem) {
  std::vector<StepWinner> chosen;
  const ProblemPattern pattern(problem);
  for (const StepWinner& winner : wisdom.steps())
    if (pattern.is_in(ops, winner.step.key())) chosen.push_back(winner);
  return chosen;
}

Sweep winners_sweep(const OpTable& ops, const std::vector<Winner>& winners, const std::string& name,
                    const BenchOptions& options, std::vector<std::string>& left_out) {
  Sweep sweep{.name = name, .ops = &ops};
  for (const Winner& winner : winners) try {
      const OpEntry& entry = ops.find(winner.problem.op);
      const Variant& variant = entry.variant(winner.variant);
      parse_config(variant, winner.config.str());  // every parameter is there, and no other
      SweepItem item{.entry = &entry,
                     .problem = entry.op.problem(winner.problem.dims, winner.problem.dtype),
                     .options = options};
      item.options.cache = winner.cache;
      VariantChoice choice{.variant = &variant};
      for (const auto& value : winner.config) choice.overrides.push_back({value.name, {value.value}});
      item.choices.push_back(std::move(choice));
      sweep.items.push_back(std::move(item));
    } catch (const InputError& e) {
      left_out.push_back(fmt::format("{}: {}", winner.problem.key(), e.what()));
    }
  return sweep;
}

std::string to_sweep_text(const std::vector<Winner>& winners, const std::string& heading) {
  std::map<std::string, std::vector<std::string>> items;  // problems, by what precedes them
  for (const Winner& w : winners) {
    auto& problems = items[fmt::format("  - op: {}\n    dtypes: {}\n    cache: {}\n    problems:\n",
                                       w.problem.op, name_of(w.problem.dtype), name_of(w.cache))];
    if (std::string dims = w.problem.dims.yaml(); !contains(problems, dims))
      problems.push_back(std::move(dims));
  }
  std::string text =
      heading + "name: retune\nstrategy: {name: guided, budget: 40}  # configurations of each problem\nops:\n";
  for (const auto& [before, problems] : items) {
    text += before;
    for (const std::string& dims : problems) text += fmt::format("      - {}\n", dims);
  }
  return text;
}

void add_steps(Sweep& sweep, const std::vector<StepWinner>& steps, const std::vector<std::string>& folders,
               std::vector<std::string>& left_out) {
  std::map<std::string, std::string> models;  // what model_named() takes, by the name in a step
  for (const std::string& name : preset_names()) models[name] = name;
  for (const std::string& folder : folders) models[model_named(folder).name] = folder;
  for (const StepWinner& winner : steps) try {
      const Assignment::Entry* name = winner.step.dims.find("model");
      const auto model = models.find(name ? name->label : "");
      if (model == models.end()) throw InputError("its model is no preset; --model DIR names its checkpoint");
      for (const StepPlan& plan : winner.plans.plans)
        parse_config(sweep.ops->find(plan.problem.op).variant(plan.variant), plan.config.str());
      sweep.steps.push_back({.model = model->second,
                             .spec = step_spec(winner.step, model_named(model->second)),
                             .plans = winner.plans});
    } catch (const InputError& e) {
      left_out.push_back(fmt::format("{}: {}", winner.step.key(), e.what()));
    }
}

}  // namespace warptune
