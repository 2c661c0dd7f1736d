#pragma once
// How a sweep is run.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "harness/device/clock_control.h"
#include "harness/measure/measurement.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// When a configuration counts as hung.
struct DeadlineRule {
  double floor_seconds = 20;  // never less, so that a busy machine loses no rows
  double max_seconds = 30;    // never more; also the deadline before anything of the problem is known
  double slowdown = 100;      // the limit of a time over the best so far
};

/// Part `index` (from 1) of `count`.
struct Shard {
  int index = 1, count = 1;
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
  DeadlineRule deadline;                    // after which a configuration counts as hung
  double compile_seconds = 120;             // time limit of one compilation
  double first_job_seconds = 180;  // more time for the first of a problem, which makes inputs and reference
  bool verbose = false;            // also print where the time went
  std::FILE* log = stdout;         // progress and the table of winners
};

}  // namespace warptune
