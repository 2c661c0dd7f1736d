#pragma once
// Solves problems on one device: screening, finalists, choice, wisdom.
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/progress.h"
#include "harness/tune/screening.h"
#include "harness/tune/summary.h"
#include "harness/tune/trials.h"

namespace warptune {

struct Choice;

class DeviceTuner {
 public:
  /// What it is to do and where its rows go; the wisdom lies beside them. Nothing is measured; `lanes`
  /// threads compile from then on. All references must outlive it.
  DeviceTuner(const Sweep& sweep, const TuneOptions& options, DeviceWorker& worker,
              std::vector<PlannedProblem> problems, RowStore& store, int lanes);

  /// Takes the ceilings from the file of its device's facts, or measures them and writes it.
  void prepare(const std::filesystem::path& device_file);

  /// Measures what launching costs, for rows of its own, unless the CSV has them; nothing on the host.
  void record_launch_floors();
  TuneSummary run(Progress& progress);

 private:
  void solve(const PlannedProblem& planned, Progress& progress);
  bool kept(const SweepItem& item) const;
  std::vector<VariantTimes> times_of(const Trials& trials, const OpEntry& op, double best_us) const;
  /// Puts the choice into the wisdom; returns the winner that stays there instead, if any.
  std::optional<Winner> remember(const SweepItem& item, const Trials& trials, const Choice& choice);

  const Sweep& sweep_;
  const TuneOptions& options_;
  DeviceWorker& worker_;
  const std::vector<PlannedProblem> problems_;
  const Compiler compiler_;
  DeviceRows rows_;
  Screening screening_;
  TuneSummary summary_;
};

}  // namespace warptune
