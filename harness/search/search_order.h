#pragma once
// The order in which a search tries the candidates of a problem, within its budget.
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "harness/core/stopwatch.h"
#include "harness/search/budget.h"
#include "harness/search/strategy.h"

namespace warptune {

/// How many candidates a search proposes before it knows the result of the first: as many as there are
/// compile jobs, at least 4, and at most a sixth of the evaluations, so that most proposals know results. A
/// budget in seconds has at most 8, since what is compiled and not tried is wasted.
int proposals_ahead(const Budget& budget, std::size_t candidates, int compile_jobs);

/// Candidates are proposed ahead, so that they can be compiled.
class SearchOrder {
 public:
  /// Proposes the first candidates. `begin`, if any, is called for each candidate that the strategy proposes.
  /// At most `ahead` candidates are proposed before the result of the first is known.
  SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
              std::function<void(std::size_t candidate)> begin = {});
  /// An index into the space; nothing where the budget is spent. A budget in seconds counts from the first
  /// result, before which a problem gets its buffers and its reference. Throws what the strategy threw, after
  /// all that it had proposed.
  std::optional<std::size_t> next();
  /// Proposes what may be proposed without the result of the last next(). Call it before tell(), at best
  /// while the device is busy.
  void propose();
  void tell(std::size_t candidate, std::optional<double> time_us);

 private:
  const std::function<void(std::size_t)> begin_;
  const std::size_t ahead_;
  std::size_t left_;
  double seconds_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Stopwatch> watch_;
  std::deque<std::size_t> pending_;
  std::size_t running_ = 0;     // 1 between next() and tell()
  std::exception_ptr failure_;  // of the strategy: thrown when all that it proposed is tried
};

}  // namespace warptune
