#pragma once
// Tunes the plans of a model's decode step where they run: in the captured step, one kernel after the other.
#include <filesystem>
#include <string>

#include "harness/core/stopwatch.h"
#include "harness/device/compile.h"
#include "harness/results/row_store.h"
#include "harness/results/wisdom.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

class StepTuner {
 public:
  /// The wisdom is next to the CSV of `store`: its winners and their times are the candidates. All references
  /// must outlive it.
  StepTuner(const OpTable& ops, const TuneOptions& options, DeviceWorker& worker, RowStore& store);

  /// Searches the plans of a step, writes a row for each candidate, and puts the best plans into the wisdom.
  /// A step that was searched to its end with the same candidates is not searched again; one that does not
  /// fit the device's memory is left out. Prints a line. Returns false where the step has no correct plans.
  bool run(const StepItem& item, const TimeLimit& limit);

 private:
  /// Times the recorded plans of the item and writes their row, unless the CSV has one of each run so far.
  bool time_again(const StepItem& item);
  std::string code_of(const StepPlans& step) const;

  const OpTable& ops_;
  const TuneOptions& options_;
  DeviceWorker& worker_;
  RowStore& store_;
  const std::filesystem::path wisdom_;
  const Compiler compiler_;
};

}  // namespace warptune
