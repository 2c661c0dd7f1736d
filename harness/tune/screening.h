#pragma once
// The first, quick measurement of a problem's configurations: all of them, or those that a strategy asks for.
#include <map>
#include <optional>
#include <string>

#include "harness/tune/builds.h"
#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/progress.h"
#include "harness/tune/prune.h"
#include "harness/tune/summary.h"
#include "harness/tune/trials.h"

namespace warptune {

class Screening {
 public:
  /// All must outlive it. Up to `lanes` threads begin at once to compile what surely is needed.
  Screening(const Sweep& sweep, const TuneOptions& options, const std::vector<PlannedProblem>& problems,
            CompileLanes::Compile compile, int lanes, DeviceWorker& worker, DeviceRows& rows);

  /// Every problem once, in the order given. Rows are written as soon as they are known; the summary's counts
  /// go on.
  Trials run(const PlannedProblem& planned, Progress& progress, TuneSummary& summary);

 private:
  class Attempts;

  const KnownRow* known(const SweepItem& item, const Candidate& candidate) const;
  std::optional<std::string> pruned(const Candidate& candidate, const Resources& resources) const;
  std::optional<Resources> resources_to_run(const SweepItem& item, const Candidate& candidate,
                                            std::size_t index, Builds& builds) const;
  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, Deadline& deadline);
  void search(const PlannedProblem& planned, Attempts& attempts);

  const Sweep& sweep_;
  const TuneOptions& options_;
  const PruneRules prune_;
  DeviceWorker& worker_;
  DeviceRows& rows_;
  CompileLanes lanes_;
  std::map<const PlannedProblem*, Builds> builds_;
};

}  // namespace warptune
