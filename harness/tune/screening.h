#pragma once
// The first, quick measurement of a problem's configurations: all of them, or those that a strategy asks for.
#include "tune/compile_lanes.h"
#include "tune/device_rows.h"
#include "tune/device_worker.h"
#include "tune/progress.h"
#include "tune/summary.h"
#include "tune/trials.h"

namespace warptune {

class Screening {
 public:
  /// All must outlive it. Its compile lanes begin at once with what the problems need first.
  Screening(const Sweep& sweep, const TuneOptions& options, const std::vector<PlannedProblem>& problems,
            const Compiler& compiler, int lanes, DeviceWorker& worker, DeviceRows& rows);

  /// Every problem once, in the order given. Rows are written as soon as they are known; the summary's counts
  /// go on.
  Trials run(const PlannedProblem& planned, Progress& progress, TuneSummary& summary);

 private:
  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, Deadline& deadline);

  const Sweep& sweep_;
  const TuneOptions& options_;
  const Compiler& compiler_;
  DeviceWorker& worker_;
  DeviceRows& rows_;
  CompileLanes lanes_;
  std::size_t task_ = 0;  // the next of the compile tasks
};

}  // namespace warptune
