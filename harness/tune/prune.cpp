#include "harness/tune/prune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

PruneRules::PruneRules(const std::vector<std::string>& conditions) {
  const std::vector<std::string> names = {"registers", "shared_bytes", "spill_bytes", "occupancy_pct"};
  for (const std::string& condition : conditions)
    if (conditions_.emplace_back(condition, names, "prune condition").used_variables().empty())
      throw InputError(
          fmt::format("prune condition '{}' names none of {}", brief(condition), fmt::join(names, ", ")));
}

std::optional<std::string> PruneRules::broken(const Resources& r) const {
  const std::vector<double> values = {static_cast<double>(r.registers), static_cast<double>(r.shared_bytes),
                                      static_cast<double>(r.spill_bytes), r.occupancy_pct};
  for (const Expression& condition : conditions_)
    if (condition.evaluate(values) != 0)
      return fmt::format(
          "{} '{}': {} registers, {} bytes of spills, {} bytes of shared memory, occupancy {:.4g} %", kPruned,
          condition.text(), r.registers, r.spill_bytes, r.shared_bytes, r.occupancy_pct);
  return std::nullopt;
}

}  // namespace warptune
