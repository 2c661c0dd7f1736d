#pragma once
// The plan chosen for a problem, and the options of the choice.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// "op=variant" or "op=variant:block=256,vec=8".
struct PlanOverride {
  std::string op, variant;
  std::optional<Config> config = {};
  /// The text that parse_plan_override() takes.
  std::string str() const;
};
/// Throws InputError for an unknown op, variant or parameter.
PlanOverride parse_plan_override(const OpTable& ops, const std::string& text);

/// A configuration in a sentence: "'tiled' with block=256", or "'host_naive'" where there is nothing to
/// configure.
std::string quoted(std::string_view variant, const Config& config);

/// The policy that a plan comes from (select/policies.h).
enum class PlanSource { overridden, step, exact, nearest, fallback };
/// "override", "step", "exact", "nearest" or "default".
std::string_view name_of(PlanSource source);

struct PlanOptions {
  Wisdom wisdom = {};
  bool has_wisdom = false;
  StaleCode stale = StaleCode::refuse;
  std::vector<PlanOverride> overrides = {};
  bool naive = false;  // use the naive variant of every op
  std::function<void(const std::string&)> tell = {};
};

struct PlanChoice {
  const Variant* variant = nullptr;
  Config config;
  PlanSource source = PlanSource::fallback;
  std::size_t override_index = 0;
  const Winner* winner = nullptr;  // the recorded one that it comes from
  std::string reason = {};         // reported if the choice is taken; may be empty
  std::string why_not = {};        // why the last winner before it is not used
};

}  // namespace warptune
