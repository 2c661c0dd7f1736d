#pragma once
// Screening: the first, short measurement of a problem's configurations, of all or of the ones that a search
// strategy proposes.
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/search/search_order.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/progress.h"
#include "harness/tune/prune_rules.h"
#include "harness/tune/summary.h"
#include "harness/tune/trials.h"

namespace warptune {

/// What the problems of one device share.
struct ScreeningContext {
  const Sweep& sweep;
  const TuneOptions& options;
  DeviceWorker& worker;
  DeviceRows& rows;
  const PruneRules prune;
  const int compile_jobs;
  CompilePool pool;
  StageTimes stages = {};  // of this process
};

/// The screening of one problem. Its candidates have the indices of the schedule.
class ProblemScreening {
 public:
  /// Both must outlive it.
  ProblemScreening(const ScheduledProblem& problem, ScreeningContext& context);
  ProblemScreening(const ProblemScreening&) = delete;
  ProblemScreening& operator=(const ProblemScreening&) = delete;

  /// Queues the compilation of all candidates that have no row yet.
  void compile_all();
  /// Queues the compilation of the strategy's first proposals, once; nothing where an earlier run has ended
  /// the search. Where the strategy knows resources, waits until all candidates are compiled.
  void begin_search();
  /// Tries all candidates, or the ones that the strategy proposes. Rows are written as soon as they are
  /// known; the counts of the summary are updated. Call it once.
  Trials run(Progress& progress, TuneSummary& summary);

 private:
  struct Build {
    std::size_t task;  // its number in the pool
    std::optional<CompileResult> result = {};
  };
  struct Trial {
    Measurement measurement;
    std::string run;  // that holds its row
  };

  const KnownRow* known(std::size_t candidate) const;
  bool search_has_ended() const;
  bool may_win(std::size_t candidate) const;
  void compile(std::size_t candidate);
  const CompileResult& built(std::size_t candidate);
  std::optional<std::string> broken_rule(std::size_t candidate, const Resources& resources) const;
  std::optional<Resources> resources_to_run(std::size_t candidate);
  std::optional<std::size_t> next_proposal();
  Measurement measure(std::size_t candidate);
  const Measurement& attempt(std::size_t candidate, Progress& progress, TuneSummary& summary);

  const ScheduledProblem& problem_;
  const SweepItem& item_;
  ScreeningContext& context_;
  Deadline deadline_;
  std::map<std::size_t, Build> builds_;        // by candidate
  std::vector<std::size_t> searched_;          // candidates, ascending
  std::optional<SearchOrder> order_;           // has indices into searched_
  std::map<std::size_t, Trial> trials_;        // in canonical order
  bool any_new_ = false;                       // a trial was measured in this run
  double best_us_ = NAN, best_high_us_ = NAN;  // and the upper end of the best interval
};

/// The screening of the problems of a schedule on one device.
class Screening {
 public:
  /// All arguments must outlive it. Up to `compile_jobs` threads start at once to compile every candidate
  /// that will be tried for certain. A search keeps them busy with the first proposals of the next problems.
  Screening(const Sweep& sweep, const TuneOptions& options, const Schedule& schedule,
            CompilePool::Compile compile, int compile_jobs, DeviceWorker& worker, DeviceRows& rows);

  /// Call it once per problem, in the order of the schedule.
  Trials run(const ScheduledProblem& problem, Progress& progress, TuneSummary& summary);
  /// How long this process took, without the worker.
  const StageTimes& stages() const { return context_.stages; }

 private:
  const std::span<const ScheduledProblem> schedule_;
  ScreeningContext context_;
  std::map<const ScheduledProblem*, ProblemScreening> problems_;  // not run yet
};

}  // namespace warptune
