#pragma once
// Solves the problems of a schedule on one device: screening, finalists, winner, wisdom.
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/finalists.h"
#include "harness/tune/progress.h"
#include "harness/tune/screening.h"
#include "harness/tune/summary.h"

namespace warptune {

class DeviceTuner {
 public:
  /// Measures nothing yet, but `compile_jobs` threads compile from then on. The wisdom is next to the CSV of
  /// `store`. All references must outlive it.
  DeviceTuner(const Sweep& sweep, const TuneOptions& options, DeviceWorker& worker, Schedule schedule,
              RowStore& store, int compile_jobs);

  /// Takes the measured peaks from device.json, or measures them and writes it.
  void prepare(const std::filesystem::path& device_file);

  /// Measures the cost of a launch and writes its rows, unless the CSV has them; nothing on the host.
  void record_launch_floors();
  /// Begins no further problem after the limit, but always the first.
  TuneSummary run(Progress& progress, const TimeLimit& limit);

 private:
  /// A problem with its winner.
  struct Solved {
    const ScheduledProblem* problem;
    Trials trials;
    Choice choice;
    std::size_t winner;  // its place in the summary
  };
  void solve(const ScheduledProblem& problem, Progress& progress);
  ProblemWinner winner_of(const SweepItem& item, const Trials& trials, const Choice& choice) const;
  bool needs_fresh_process(const Solved& solved) const;
  /// Times the winners in a new worker, and replaces those that lose there.
  void time_in_fresh_process(Progress& progress, const TimeLimit& limit);
  bool kept(const SweepItem& item) const;
  /// Puts the choice into the wisdom. Returns the old winner where it stays instead.
  std::optional<Winner> remember(const SweepItem& item, const Trials& trials, const Choice& choice);

  const Sweep& sweep_;
  const TuneOptions& options_;
  DeviceWorker& worker_;
  const Schedule schedule_;
  const Compiler compiler_;
  DeviceRows rows_;
  Screening screening_;
  TuneSummary summary_;
  std::vector<Solved> solved_;  // where the sweep wants a fresh process
};

}  // namespace warptune
