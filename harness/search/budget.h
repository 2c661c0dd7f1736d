#pragma once
// How a sweep searches: the strategy, its seed, and how much it may try per problem.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warptune {

struct Budget {
  enum class Unit { all, evaluations, percent, seconds } unit = Unit::all;
  double amount = 0;
  /// Candidates that may be tried of so many; seconds do not limit them.
  std::size_t evaluations(std::size_t candidates) const;
};

/// "40", "15%" or "60s". Throws InputError.
Budget parse_budget(std::string_view text);

struct SearchChoice {
  std::string strategy = "exhaustive";
  Budget budget;
  std::uint64_t seed = 1;
  bool resources = false;  // all configurations are compiled first, so that the strategy knows what they take
  /// Whether a strategy says what is tried; else everything is, in canonical order.
  bool searching() const { return strategy != "exhaustive" || budget.amount > 0; }
};

}  // namespace warptune
