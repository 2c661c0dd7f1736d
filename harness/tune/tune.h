#pragma once
// Runs a sweep: compiles ahead, has a worker prove and time every configuration, writes its row, and keeps
// the winners.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tune/deadline.h"
#include "tune/plan.h"
#include "tune/shard.h"

namespace warptune {

struct TuneOptions {
  std::filesystem::path program = "/proc/self/exe";  // started as `program worker --device X`
  std::optional<std::string> device;                 // instead of the sweep's; a list, or `all`
  std::optional<std::filesystem::path> output;       // instead of the sweep's
  std::string filter;                                // regular expression over op/variant
  int lanes = 0;                                     // compile threads; 0: all but one of the machine
  Shard shard;                                       // the part of the sweep to do here
  bool fresh = false;                                // a new CSV, instead of going on with the newest
  DeadlineRule deadline;                             // of a configuration
  double compile_seconds = 120;                      // deadline of compiling one
  double first_job_seconds = 180;  // more, for the first of a problem: inputs and the fp64 reference are made
  std::FILE* log = stdout;         // progress and the table of winners
};

/// The winner of a problem; `measurement` holds its numbers.
struct ProblemWinner {
  Problem problem;
  std::string variant;
  Config config;
  Measurement measurement;
};

struct TuneSummary {
  std::size_t configurations = 0, ok = 0;
  std::size_t known = 0;  // of the configurations, measured by an earlier run
  double seconds = 0;
  double busy_seconds = 0, worker_seconds = 0;  // all workers: measuring, and since their first jobs
  std::vector<ProblemWinner> winners;           // problems without one are missing
  std::vector<Problem> unsolved;
  std::filesystem::path csv, wisdom;
};

/// Throws InputError before anything is measured; a configuration that fails costs its row only.
TuneSummary tune(const Sweep& sweep, const TuneOptions& options);

/// Prints how many configurations each op and variant has before and after the constraints.
void dry_run(const Sweep& sweep, const TuneOptions& options);

}  // namespace warptune
