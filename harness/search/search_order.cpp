#include "harness/search/search_order.h"

#include <algorithm>
#include <cmath>

namespace warptune {

SearchOrder::SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
                         std::function<void(std::size_t)> begin)
    : begin_(std::move(begin)),
      ahead_(static_cast<std::size_t>(std::max(ahead, 1))),
      left_(choice.budget.evaluations(space.candidates.size())),
      seconds_(choice.budget.unit == Budget::Unit::seconds ? choice.budget.amount : INFINITY),
      strategy_(make_strategy(choice.strategy, std::move(space), choice.seed)) {
  propose();
}

void SearchOrder::propose() {
  while (left_ > 0 && pending_.size() < ahead_) {
    const auto candidate = strategy_->next();
    if (!candidate) break;
    --left_;
    if (begin_) begin_(*candidate);
    pending_.push_back(*candidate);
  }
}

std::optional<std::size_t> SearchOrder::next() {
  if (!watch_) watch_.emplace();
  if (watch_->seconds() >= seconds_) return std::nullopt;
  propose();
  if (pending_.empty()) return std::nullopt;
  const std::size_t first = pending_.front();
  pending_.pop_front();
  return first;
}

}  // namespace warptune
