#include "harness/tune/winners_sweep.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/pattern.h"

namespace warptune {

std::vector<Winner> winners_of(const Wisdom& wisdom, const std::string& problem) {
  std::vector<Winner> chosen;
  const Pattern pattern(problem, "--problem");
  for (const Winner& winner : wisdom.winners())
    if (pattern.is_in(winner.problem.key())) chosen.push_back(winner);
  if (chosen.empty())
    throw InputError(problem.empty() ? std::string("the wisdom holds no winners")
                                     : fmt::format("no problem of the wisdom matches '{}'", problem));
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

}  // namespace warptune
