#pragma once
// The numbers of a report: the winner of each problem next to naive and vendor, and the ops of a decode step.
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/report/results_set.h"

namespace warptune {

/// The winner of a problem on a device; times in microseconds, NaN if there is none.
struct Best {
  std::string device, op, problem, variant, config, cache, run_id, throttled;
  double time_us, floor_us, pct_floor, bytes, flops;
  double naive_us, vendor_us;
  std::string vendor;      // "cublaslt", or the peer's name
  bool by_wisdom = false;  // else the fastest row
};
/// The winners, in the order in which their problems first appear: the wisdom's winner if its row is here,
/// else the fastest ok row of the problem's latest run. Ignores rows in another cache state (RowRole::aside).
/// The last time of a finalist counts.
std::vector<Best> winners_of(const ResultsSet& set);

/// One op of a decode step; `us` is the time of one launch, NaN if no winner is near.
struct StepPart {
  std::string role, problem, variant;
  int count = 0;
  double us = 0;
};
struct Step {
  std::string device, model, plan_set;
  int batch = 0, context = 0;
  double us_per_token, sum_of_ops_us, floor_us;  // as decode measured them
  std::vector<StepPart> parts;                   // from the winners of the sweep
};
/// The steps of decode runs of a preset: the last run of each model, batch, context and plan set.
std::vector<Step> steps_of(const OpTable& ops, const ResultsSet& set, const std::vector<Best>& winners);

}  // namespace warptune
