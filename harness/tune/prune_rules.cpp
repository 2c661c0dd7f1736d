#include "harness/tune/prune_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

PruneRules::PruneRules(const std::vector<std::string>& conditions) {
  const std::vector<std::string> names = {"registers", "shared_bytes", "spill_bytes", "occupancy_pct"};
  for (const std::string& condition : conditions) {
    const Expression parsed(condition, "prune condition");
    parsed.resolve(std::vector<Variable>(names.begin(), names.end()), "prune condition");
    if (conditions_.emplace_back(parsed, names).used().empty())
      throw InputError("prune condition '{}' names none of {}", brief(condition), fmt::join(names, ", "));
    broken({.registers = 32, .occupancy_pct = 100});  // dividing by no spills is a mistake
  }
}

std::optional<std::string> PruneRules::broken(const Resources& r) const {
  const std::vector<double> values = {static_cast<double>(r.registers), static_cast<double>(r.shared_bytes),
                                      static_cast<double>(r.spill_bytes), r.occupancy_pct};
  for (const Evaluator& condition : conditions_) {
    const double value = condition(values);
    if (std::isnan(value))
      throw InputError(
          "prune condition '{}' is not a number for {} registers, {} bytes of spills, {} "
          "bytes of shared memory and an occupancy of {:.4g} %: {}",
          brief(condition.expression().text()), r.registers, r.spill_bytes, r.shared_bytes, r.occupancy_pct,
          kNotFinite);
    if (value != 0)
      return fmt::format(
          "{} '{}': {} registers, {} bytes of spills, {} bytes of shared memory, occupancy {:.4g} %", kPruned,
          condition.expression().text(), r.registers, r.spill_bytes, r.shared_bytes, r.occupancy_pct);
  }
  return std::nullopt;
}

}  // namespace warptune
