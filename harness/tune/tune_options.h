#pragma once
// How a sweep is run: what the command line says, beyond what the sweep's file says.
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "harness/measure/measurement.h"
#include "harness/tune/deadline.h"
#include "harness/tune/shard.h"

namespace warptune {

struct TuneOptions {
  std::filesystem::path program = "/proc/self/exe";  // started as `program worker --device X`
  std::optional<std::string> device;                 // instead of the sweep's; a list, or `all`
  bool may_share = false;  // several workers on one device, which disturb each other: for tests
  std::optional<std::filesystem::path> output;  // instead of the sweep's
  std::string filter;                           // regular expression over op/variant
  int lanes = 0;                                // compile threads; 0: all but one of the machine
  Shard shard;                                  // the part of the sweep to do here
  bool fresh = false;                           // a new CSV, instead of going on with the newest
  bool add_winners_only = false;                // whatever was measured, no winner is replaced
  std::set<Status> retry;                       // rows with one of these are measured again
  DeadlineRule deadline;                        // of a configuration
  double compile_seconds = 120;                 // deadline of compiling one
  double first_job_seconds = 180;  // more, for the first of a problem: inputs and the fp64 reference are made
  std::FILE* log = stdout;         // progress and the table of winners
};

}  // namespace warptune
