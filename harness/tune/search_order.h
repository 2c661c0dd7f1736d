#pragma once
// The candidates of a problem in the order that a strategy wants them, a few compiled ahead.
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <optional>

#include "search/strategy.h"
#include "tune/compile_lanes.h"
#include "tune/plan.h"

namespace warptune {

class SearchOrder {
 public:
  struct Proposal {
    std::size_t candidate = 0;
    CompileResult built;
  };

  /// Asks for at most `ahead` candidates before the first of them is told.
  SearchOrder(const PlannedProblem& planned, const SearchChoice& choice, const Compiler& compiler,
              const DeviceFacts& facts, int ahead);
  /// Waits for the next candidate's code; nothing where the budget is spent.
  std::optional<Proposal> next();
  void tell(std::size_t candidate, std::optional<double> time_us) { strategy_->tell(candidate, time_us); }

 private:
  struct Pending {
    std::size_t candidate = 0;
    std::future<CompileResult> built;
  };

  const PlannedProblem& planned_;
  const Compiler& compiler_;
  const DeviceFacts& facts_;
  const std::size_t ahead_;
  std::unique_ptr<Strategy> strategy_;
  std::size_t left_;
  double seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::deque<Pending> pending_;
};

}  // namespace warptune
