#pragma once
// The inputs of a report, rows of sweeps, decode runs, peers, devices with their peaks and wisdom, and its
// numbers: the winner of each problem next to naive and vendor, and the ops of a decode step.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/op_table.h"
#include "harness/results/history.h"
#include "harness/results/journal.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The role of a sweep's row in its problem. A problem is shown cold, or hot if it was only timed hot.
enum class RowRole {
  first,     // the first measurement of a configuration
  finalist,  // its interleaved time with the other finalists
  aside,     // its time in another cache state
};

struct ResultsSet {
  std::vector<CsvRow> rows;    // rows of sweeps, in the order of the files
  std::vector<CsvRow> peers;   // the same columns, measured by another program (torch_peers.csv)
  std::vector<CsvRow> decode;  // rows of decode.csv
  std::vector<DeviceFacts> devices;
  std::vector<Wisdom> wisdom;
  std::vector<HistoryRun> history;  // the runs of a history, and the changes in it
  Comparison changes;
  std::vector<std::string> notes;  // skipped files and the reasons
};

/// Reads files and folders (every *.csv below), and device.json, wisdom.json, decode.csv and torch_peers.csv
/// next to a CSV. Skips other tables with a note. Throws InputError if a path does not exist, a sweep's file
/// is wrong (results/sweep_file.h), or there is no row.
ResultsSet read_results(const std::vector<std::filesystem::path>& paths);

/// Reads a history, and finds its changes; a note says why where that fails. Throws InputError.
void add_history(ResultsSet& set, const std::filesystem::path& folder);

/// The role of each row of a sweep.
std::vector<RowRole> roles_of(const std::vector<CsvRow>& rows);

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
