#include "harness/tune/missing.h"

#include "harness/core/lookup.h"
#include "harness/select/tuned_plans.h"

namespace warptune {

Sweep missing_part(const Sweep& sweep, const DeviceFacts& facts, const PlanOptions& known) {
  const TunedPlans tuned(*sweep.ops, facts, known);
  Sweep part = sweep;
  part.items.clear();
  for (const SweepItem& item : sweep.items) {
    const bool is_there = contains(part.items, item.problem, &SweepItem::problem);
    if (is_there || tuned.tuned_us(item.problem)) continue;
    SweepItem missing = item;
    missing.choices.clear();
    const auto likely = tuned.likely(item.problem);
    for (const VariantChoice& choice : item.choices)
      for (const auto& [variant, config] : likely) {
        if (variant != choice.variant) continue;
        VariantChoice& only = missing.choices.emplace_back(choice);
        only.overrides.clear();
        for (const auto& entry : config) only.overrides.push_back({entry.name, {entry.value}});
      }
    if (!missing.choices.empty()) part.items.push_back(std::move(missing));
  }
  return part;
}

Sweep part_to_tune(const Sweep& sweep, const DeviceFacts& facts, const TuneOptions& options) {
  if (!sweep.missing) return sweep;
  return missing_part(sweep, facts,
                      {.wisdom = options.known ? options.known(facts) : Wisdom(), .has_wisdom = true});
}

}  // namespace warptune
