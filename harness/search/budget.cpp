#include "harness/search/budget.h"

#include <algorithm>
#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/text.h"

namespace warptune {

std::size_t Budget::evaluations(std::size_t candidates) const {
  if (unit == Unit::all || unit == Unit::seconds) return candidates;
  const double count =
      unit == Unit::percent ? std::floor(amount / 100 * static_cast<double>(candidates) + 1e-9) : amount;
  return std::min(candidates, static_cast<std::size_t>(std::max(count, 1.0)));
}

Budget parse_budget(std::string_view text) {
  Budget budget{.unit = Budget::Unit::evaluations};
  std::string_view digits = text;
  if (digits.ends_with('%') || digits.ends_with('s')) {
    budget.unit = digits.back() == '%' ? Budget::Unit::percent : Budget::Unit::seconds;
    digits.remove_suffix(1);
  }
  budget.amount = parse_number<double>(digits).value_or(0);
  const bool whole = budget.amount == std::floor(budget.amount);
  if (!(budget.amount > 0) || (budget.unit == Budget::Unit::evaluations && !whole) ||
      (budget.unit == Budget::Unit::percent && budget.amount > 100) || budget.amount > 1e9)
    throw InputError("budget '{}' must be a number of evaluations (40), a percentage (15%) or seconds (60s)",
                     brief(text));
  return budget;
}

}  // namespace warptune
