#include "tune/search_order.h"

#include <algorithm>
#include <cmath>

namespace warptune {
namespace {

SearchSpace space_of(const PlannedProblem& planned) {
  SearchSpace space;
  for (const Candidate& c : planned.candidates)
    space.candidates.push_back({.variant = c.variant->name, .config = c.config});
  return space;
}

}  // namespace

SearchOrder::SearchOrder(const PlannedProblem& planned, const SearchChoice& choice, const Compiler& compiler,
                         const DeviceFacts& facts, int ahead)
    : planned_(planned),
      compiler_(compiler),
      facts_(facts),
      ahead_(static_cast<std::size_t>(std::max(ahead, 1))),
      strategy_(make_strategy(choice.strategy, space_of(planned), choice.seed)),
      left_(choice.budget.evaluations(planned.candidates.size())),
      seconds_(choice.budget.unit == Budget::Unit::seconds ? choice.budget.amount : INFINITY) {}

std::optional<SearchOrder::Proposal> SearchOrder::next() {
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (spent >= seconds_) return std::nullopt;
  while (left_ > 0 && pending_.size() < ahead_) {
    const auto candidate = strategy_->next();
    if (!candidate) break;
    --left_;
    const Candidate& c = planned_.candidates[*candidate];
    const CompileTask task{c.variant, &planned_.item->problem, &c.config};
    const bool kernels = is_compiled(*c.variant);
    pending_.push_back({*candidate, std::async(std::launch::async, [this, task, kernels] {
                          return kernels ? compile_now(compiler_, task, facts_) : CompileResult{};
                        })});
  }
  if (pending_.empty()) return std::nullopt;
  Pending first = std::move(pending_.front());
  pending_.pop_front();
  return Proposal{first.candidate, first.built.get()};
}

}  // namespace warptune
