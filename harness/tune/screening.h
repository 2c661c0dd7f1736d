#pragma once
// Screening: the first, short measurement of a problem's configurations, of all of them or of those that a
// search strategy proposes.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/measurement.h"
#include "harness/search/budget.h"
#include "harness/search/strategy.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/progress.h"
#include "harness/tune/summary.h"

namespace warptune {

/// The configurations of a problem that were tried, in canonical order. The lists are parallel.
struct Trials {
  std::vector<Candidate> candidates;
  std::vector<Measurement> measurements;
  std::vector<std::string> runs;  // ids of the runs that hold their rows
  bool any_new = false;           // at least one was measured in this run
  std::vector<double> first_us;   // times of the screening, before finalists are timed again

  /// "no configuration is correct: 3 wrong_result, 1 timeout (first: ...)"
  std::string why_none() const;
};

/// The order in which a strategy visits a problem's candidates. A few of them are compiled ahead.
class SearchOrder {
 public:
  /// `begin` is called for each candidate that the strategy proposes. At most `ahead` candidates are proposed
  /// before the result of the first is known.
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

class Screening {
 public:
  /// All arguments must outlive it. Up to `compile_jobs` threads start at once to compile every candidate
  /// that will be tried for certain.
  Screening(const Sweep& sweep, const TuneOptions& options, const Schedule& schedule,
            CompilePool::Compile compile, int compile_jobs, DeviceWorker& worker, DeviceRows& rows);

  /// Call it once per problem, in the order of the schedule. Rows are written as soon as they are known; the
  /// counts of the summary are updated.
  Trials run(const ScheduledProblem& problem, Progress& progress, TuneSummary& summary);

 private:
  class Attempts;

  const KnownRow* known(const SweepItem& item, const Candidate& candidate) const;
  std::optional<std::string> pruned(const Candidate& candidate, const Resources& resources) const;
  std::optional<Resources> resources_to_run(const SweepItem& item, const Candidate& candidate,
                                            std::size_t index, Builds& builds) const;
  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, Deadline& deadline);
  void search(const ScheduledProblem& problem, Attempts& attempts, TuneSummary& summary);
  bool search_has_ended(const ScheduledProblem& problem) const;

  const Sweep& sweep_;
  const TuneOptions& options_;
  const PruneRules prune_;
  DeviceWorker& worker_;
  DeviceRows& rows_;
  CompilePool pool_;
  std::map<const ScheduledProblem*, Builds> builds_;
};

}  // namespace warptune
