#pragma once
// The result of a sweep, and how it is printed.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/problem.h"
#include "harness/measure/measurement.h"
#include "harness/measure/speed_table.h"
#include "harness/measure/stage_times.h"
#include "harness/tune/shared_choice.h"

namespace warptune {

/// The winner of a problem; `measurement` holds its numbers.
struct ProblemWinner {
  Problem problem;
  std::string label;  // the problem, for people
  std::string variant;
  Config config;
  Measurement measurement;
  Speed speed;
};

struct TuneSummary {
  std::size_t configurations = 0, ok = 0;
  std::size_t pruned = 0;                         // configurations that were compiled but not run
  std::size_t known = 0;                          // configurations that an earlier run measured
  std::size_t kept_cold = 0;                      // problems timed hot whose cold winner stays in the wisdom
  std::size_t searched_before = 0;                // problems whose search in seconds an earlier run has ended
  std::size_t problems_left = 0, steps_left = 0;  // not tuned: the budget of the sweep is spent
  double seconds = 0;
  double busy_seconds = 0, worker_seconds = 0;  // all workers: measuring, and since their first jobs
  double tuning_seconds = 0;                    // all workers: from the first problem to the last
  StageTimes stages;                            // of the tuning_seconds
  std::vector<ProblemWinner> winners;           // problems without one are missing
  std::vector<Problem> unsolved;
  std::vector<ProblemTimes> shared;  // of all problems, where the sweep wants configurations for families
  std::filesystem::path csv, wisdom;
  std::vector<std::filesystem::path> other_csvs;  // of the other kinds of devices
};

/// The sum over devices, with the files of the first.
TuneSummary added_up(std::vector<TuneSummary> parts);
/// A table of the winners, the counts and the files. `verbose`: also where the time went, and the share that
/// the workers measured.
void print_summary(std::FILE* log, const TuneSummary& summary, bool verbose);

}  // namespace warptune
