#pragma once
// The 'prune' conditions of a sweep: compiled configurations that meet one are not run.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/expression.h"
#include "harness/measure/measurement.h"

namespace warptune {

/// The detail of a pruned configuration's row begins with these words.
inline constexpr std::string_view kPruned = "pruned by";

class PruneRules {
 public:
  /// Conditions over `registers`, `shared_bytes`, `spill_bytes` and `occupancy_pct`, with the units of the
  /// CSV. Throws InputError for a condition that does not parse or uses none of these names.
  explicit PruneRules(const std::vector<std::string>& conditions = {});

  /// One sentence where a condition holds: "pruned by 'spill_bytes > 0': 255 registers, 96 bytes of spills,
  /// 1024 bytes of shared memory, occupancy 12.5 %".
  std::optional<std::string> broken(const Resources& resources) const;

 private:
  std::vector<Evaluator> conditions_;
};

}  // namespace warptune
