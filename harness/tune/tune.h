#pragma once
// Runs a sweep: compiles ahead, has a worker verify and time every configuration, writes its row, and keeps
// the winners.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "harness/device/clock_control.h"
#include "harness/measure/measurement.h"
#include "harness/results/wisdom.h"
#include "harness/tune/schedule.h"
#include "harness/tune/summary.h"
#include "harness/tune/sweep.h"

namespace warptune {

/// When a configuration counts as hung.
struct DeadlineRule {
  double floor_seconds = 20;  // never less, so that a busy machine loses no rows
  double max_seconds = 30;    // never more; also the deadline before anything of the problem is known
  double slowdown = 100;      // a configuration may be so many times slower than the best so far
};

/// The options of the command line; the rest is in the sweep's file.
struct TuneOptions {
  std::filesystem::path program = "/proc/self/exe";  // started as `program worker --device X`
  std::optional<std::string> device;                 // instead of the sweep's; a list, or `all`
  std::string as;          // an older architecture that the devices rehearse: facts_as()
  std::string arch;        // dry run: schedule for this architecture instead of opening a device
  bool may_share = false;  // several workers may time on one device at once: for tests
  std::optional<std::filesystem::path> output;  // instead of the sweep's
  /// For a sweep with `missing: true`: what is known of a device.
  std::function<Wisdom(const DeviceFacts&)> known = {};
  std::string filter;         // regular expression over op/variant
  double budget_seconds = 0;  // for the whole sweep; 0: until everything is tuned
  int compile_jobs = 0;       // compile threads; 0: all hardware threads but one
  Shard shard;                // the part of the sweep to do here
  bool fresh = false;         // start a new CSV instead of resuming the newest
  int rerun = 0;           // above 0: measure what has fewer rows than this; replace no winner of the wisdom
  std::set<Status> retry;  // measure rows with these statuses again
  std::optional<ClockRequest> lock_clocks;  // hold the clocks of the GPUs while they are timed
  DeadlineRule deadline;                    // of a configuration
  double compile_seconds = 120;             // time limit of one compilation
  double first_job_seconds = 180;  // more time for the first of a problem, which makes inputs and reference
  bool verbose = false;            // also print the share of time that the workers measured
  std::FILE* log = stdout;         // progress and the table of winners
};

/// Devices of one kind share the problems, the CSV and the wisdom; each kind does the whole sweep. Throws
/// InputError before anything is measured; a configuration that fails costs its row only.
TuneSummary tune(const Sweep& sweep, const TuneOptions& options);

/// Prints the number of configurations per variant, the evaluations under the strategy and its budget, and an
/// estimate of the time. Measures nothing; with options.arch it needs no device.
void dry_run(const Sweep& sweep, const TuneOptions& options);

}  // namespace warptune
