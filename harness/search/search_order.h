#pragma once
// The order in which a search tries the candidates of a problem, within its budget.
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "harness/core/stopwatch.h"
#include "harness/search/budget.h"
#include "harness/search/strategy.h"

namespace warptune {

/// A few candidates are proposed ahead, so that they can be compiled.
class SearchOrder {
 public:
  /// Proposes the first candidates. `begin`, if any, is called for each candidate that the strategy proposes.
  /// At most `ahead` candidates are proposed before the result of the first is known.
  SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
              std::function<void(std::size_t candidate)> begin = {});
  /// An index into the space; nothing where the budget is spent. A budget in seconds counts from the first
  /// call.
  std::optional<std::size_t> next();
  void tell(std::size_t candidate, std::optional<double> time_us) { strategy_->tell(candidate, time_us); }

 private:
  void propose();

  const std::function<void(std::size_t)> begin_;
  const std::size_t ahead_;
  std::size_t left_;
  double seconds_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Stopwatch> watch_;
  std::deque<std::size_t> pending_;
};

}  // namespace warptune
