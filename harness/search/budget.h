#pragma once
// The search settings of a sweep: strategy, seed and budget per problem.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warptune {

struct Budget {
  enum class Unit { all, evaluations, percent, seconds } unit = Unit::all;
  double amount = 0;
  /// The number of candidates that may be tried; a budget in seconds does not limit it.
  std::size_t evaluations(std::size_t candidates) const;
};

/// "40", "15%" or "60s". Throws InputError.
Budget parse_budget(std::string_view text);

struct SearchChoice {
  std::string strategy = "exhaustive";
  Budget budget;
  std::uint64_t seed = 1;
  std::string run = {};    // the command line of strategy `command`
  bool resources = false;  // compile all configurations first, so that the strategy knows their resources
  /// Whether a strategy selects configurations; else all are tried in canonical order.
  bool searching() const { return strategy != "exhaustive" || budget.amount > 0; }
};

}  // namespace warptune
