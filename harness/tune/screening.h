#pragma once
// Screening: the first, short measurement of a problem's configurations, of all of them or of those that a
// search strategy proposes.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/measurement.h"
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

class Screening {
 public:
  /// All arguments must outlive it. Up to `compile_jobs` threads start at once to compile every candidate
  /// that will be tried for certain. A search keeps them busy with the first proposals of the next problems.
  Screening(const Sweep& sweep, const TuneOptions& options, const Schedule& schedule,
            CompilePool::Compile compile, int compile_jobs, DeviceWorker& worker, DeviceRows& rows);
  ~Screening();

  /// Call it once per problem, in the order of the schedule. Rows are written as soon as they are known; the
  /// counts of the summary are updated.
  Trials run(const ScheduledProblem& problem, Progress& progress, TuneSummary& summary);

 private:
  class Attempts;
  class Search;

  const KnownRow* known(const SweepItem& item, const Candidate& candidate) const;
  std::optional<std::string> pruned(const Candidate& candidate, const Resources& resources) const;
  std::optional<Resources> resources_to_run(const ScheduledProblem& problem, std::size_t index);
  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, Deadline& deadline);
  void search(const ScheduledProblem& problem, Attempts& attempts, TuneSummary& summary);
  void begin_search(const ScheduledProblem& problem, std::vector<std::size_t> candidates);
  bool search_has_ended(const ScheduledProblem& problem) const;

  const Sweep& sweep_;
  const TuneOptions& options_;
  const PruneRules prune_;
  DeviceWorker& worker_;
  DeviceRows& rows_;
  const std::span<const ScheduledProblem> schedule_;
  const std::size_t problems_ahead_;  // so many searches are begun
  CompilePool pool_;
  std::map<const ScheduledProblem*, Builds> builds_;
  std::map<const ScheduledProblem*, std::unique_ptr<Search>> searches_;  // begun and not ended
};

}  // namespace warptune
