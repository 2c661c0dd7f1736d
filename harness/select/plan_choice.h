#pragma once
// What is chosen for a problem, and the options of choosing.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// "op=variant" or "op=variant:block=256,vec=8".
struct PlanOverride {
  std::string op, variant;
  std::optional<Config> config = {};
  /// As it was given.
  std::string str() const;
};
/// Throws InputError for an unknown op, variant or parameter.
PlanOverride parse_plan_override(const OpTable& ops, const std::string& text);

/// The policy that a plan comes from (select/policies.h).
enum class PlanSource { overridden, exact, predicted, nearest, fallback };

struct PlanOptions {
  Wisdom wisdom = {};
  bool has_wisdom = false;
  StaleCode stale = StaleCode::refuse;
  std::vector<PlanOverride> overrides = {};
  bool naive = false;    // the plainest variant of every op
  bool untuned = false;  // as if the wisdom did not know the very problem
  std::function<void(const std::string&)> tell = {};
};

struct PlanChoice {
  const Variant* variant = nullptr;
  Config config;
  PlanSource source = PlanSource::fallback;
  std::size_t override_index = 0;
  std::string reason = {};  // told where the choice is taken; may be empty
};

}  // namespace warptune
