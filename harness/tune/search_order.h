#pragma once
// The candidates of a problem in the order that a strategy wants them, a few begun to compile ahead.
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "harness/search/budget.h"
#include "harness/search/strategy.h"
#include "harness/tune/stopwatch.h"

namespace warptune {

class SearchOrder {
 public:
  /// `begin` is called for each candidate as soon as the strategy proposes it, which it does for at most
  /// `ahead` before the first of them is told.
  SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
              std::function<void(std::size_t candidate)> begin);
  /// An index into the space; nothing where the budget is spent.
  std::optional<std::size_t> next();
  void tell(std::size_t candidate, std::optional<double> time_us) { strategy_->tell(candidate, time_us); }

 private:
  const std::function<void(std::size_t)> begin_;
  const std::size_t ahead_;
  std::size_t left_;
  double seconds_;
  std::unique_ptr<Strategy> strategy_;
  Stopwatch watch_;
  std::deque<std::size_t> pending_;
};

}  // namespace warptune
