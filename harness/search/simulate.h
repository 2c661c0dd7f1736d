#pragma once
// Simulates search strategies on recorded exhaustive spaces, without a device.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/search/budget.h"
#include "harness/search/space.h"

namespace warptune {

struct RecordedSpace {
  std::string problem;  // with " hot" appended for hot times
  SearchSpace space;
  std::vector<double> times_us;  // infinite where the configuration failed
  double best_us = 0;
};

/// The problems of a sweep's CSV whose key matches `pattern` (a regular expression, core/pattern.h)
/// and that have at least one time. The last row of a configuration counts, without rows of finalists: a
/// strategy knows only the times of the screening. Searches begin with the default tiles, as those of `tune`.
/// Throws InputError.
std::vector<RecordedSpace> recorded_spaces(const OpTable& ops, const std::filesystem::path& csv,
                                           const std::string& pattern);

struct SimulateOptions {
  std::vector<std::string> strategies = {"guided"};
  std::string run;  // the command line of strategy `command`
  int seeds = 100;
  double budget_pct = 15;
  std::vector<Budget> at = {};  // not empty: one table of all spaces at these budgets
  bool resources = false;       // strategies know the resources of all configurations, as after pruning
  int ahead = 1;                // proposals in flight before the first result
  std::filesystem::path csv;
  std::FILE* log = stdout;
};

/// The best time found over the optimum, after each evaluation.
std::vector<double> convergence(const RecordedSpace& recorded, const SearchChoice& choice, int ahead);

/// Prints for each space and strategy the best time found over the optimum, by number of evaluations.
void simulate(std::vector<RecordedSpace> spaces, const SimulateOptions& options);

}  // namespace warptune
