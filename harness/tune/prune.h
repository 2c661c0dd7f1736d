#pragma once
// Configurations left out, before they run, for what their kernels take.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/expression.h"
#include "harness/device/device.h"

namespace warptune {

/// How the detail of a pruned configuration's row begins.
inline constexpr std::string_view kPruned = "pruned by";

class PruneRules {
 public:
  /// Conditions over `registers`, `shared_bytes`, `spill_bytes` and `occupancy_pct`, each as in the CSV.
  /// Throws InputError for a wrong one, and for one without any of these names, which prunes all or nothing.
  explicit PruneRules(const std::vector<std::string>& conditions = {});

  /// One sentence where a condition holds: "pruned by 'spill_bytes > 0': 255 registers, 96 bytes of spills,
  /// 1024 bytes of shared memory, occupancy 12.5 %".
  std::optional<std::string> broken(const Resources& resources) const;

 private:
  std::vector<Expression> conditions_;
};

}  // namespace warptune
