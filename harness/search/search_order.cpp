#include "harness/search/search_order.h"

#include <algorithm>
#include <cmath>

namespace warptune {

int proposals_ahead(const Budget& budget, std::size_t candidates, int compile_jobs) {
  constexpr std::size_t kLeast = 4, kMostInSeconds = 8;
  const std::size_t most =
      budget.unit == Budget::Unit::seconds ? kMostInSeconds : budget.evaluations(candidates) / 6;
  return static_cast<int>(std::clamp(static_cast<std::size_t>(compile_jobs), kLeast, std::max(most, kLeast)));
}

SearchOrder::SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
                         std::function<void(std::size_t)> begin)
    : begin_(std::move(begin)),
      ahead_(static_cast<std::size_t>(std::max(ahead, 1))),
      left_(choice.budget.evaluations(space.candidates.size())),
      seconds_(choice.budget.unit == Budget::Unit::seconds ? choice.budget.amount : INFINITY),
      strategy_(make_strategy(choice, std::move(space))) {
  propose();
}

void SearchOrder::propose() {
  while (left_ > 0 && !failure_ && pending_.size() + running_ < ahead_) try {
      const auto candidate = strategy_->next();
      if (!candidate) break;
      --left_;
      if (begin_) begin_(*candidate);
      pending_.push_back(*candidate);
    } catch (...) {
      failure_ = std::current_exception();
    }
}

std::optional<std::size_t> SearchOrder::next() {
  if (watch_ && watch_->seconds() >= seconds_) return std::nullopt;
  if (pending_.empty()) propose();
  if (pending_.empty() && failure_) std::rethrow_exception(failure_);
  if (pending_.empty()) return std::nullopt;
  const std::size_t first = pending_.front();
  pending_.pop_front();
  running_ = 1;
  return first;
}

void SearchOrder::tell(std::size_t candidate, std::optional<double> time_us) {
  strategy_->tell(candidate, time_us);
  running_ = 0;
  if (!watch_) watch_.emplace();
}

}  // namespace warptune
