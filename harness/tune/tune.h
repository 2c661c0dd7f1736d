#pragma once
// Runs a sweep: compiles ahead, has a worker prove and time every configuration, writes its row, and keeps
// the winners.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tune/plan.h"

namespace warptune {

struct TuneOptions {
  std::filesystem::path program = "/proc/self/exe";  // started as `program worker --device X`
  std::optional<std::string> device;                 // instead of the sweep's
  std::optional<std::filesystem::path> output;       // instead of the sweep's
  std::string filter;                                // regular expression over op/variant
  int lanes = 0;                                     // compile threads; 0: all but one of the machine
  double job_seconds = 30;                           // deadline of a configuration
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
  double seconds = 0;
  std::vector<ProblemWinner> winners;  // problems without one are missing
  std::vector<Problem> unsolved;
  std::filesystem::path csv, wisdom;
};

/// Throws InputError before anything is measured; a configuration that fails costs its row only.
TuneSummary tune(const Sweep& sweep, const TuneOptions& options);

/// Prints how many configurations each op and variant has before and after the constraints.
void dry_run(const Sweep& sweep, const TuneOptions& options);

}  // namespace warptune
