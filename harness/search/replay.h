#pragma once
// Runs strategies on recorded exhaustive spaces, without a device.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/search/space.h"

namespace warptune {

struct RecordedSpace {
  std::string problem;  // with "hot" behind it where the times are hot
  SearchSpace space;
  std::vector<double> times_us;  // infinite where the configuration failed
  double best_us = 0;
};

/// The problems of a sweep's CSV whose key holds `pattern` (a regular expression) and that have at least one
/// time. A configuration recorded twice counts as its last row; the times of finalists, taken again, do not
/// count: a strategy is told first times. Throws InputError.
std::vector<RecordedSpace> recorded_spaces(const std::filesystem::path& csv, const std::string& pattern);

struct ReplayOptions {
  std::vector<std::string> strategies = {"guided"};
  int seeds = 100;
  double budget_pct = 15;
  bool resources = false;  // strategies know what all configurations take, as after pruning
  int ahead = 1;           // candidates asked for before the first of them is told
  std::filesystem::path csv;
  std::FILE* log = stdout;
};

/// Best found over optimum after each evaluation.
std::vector<double> convergence(const RecordedSpace& recorded, const std::string& strategy,
                                std::uint64_t seed, std::size_t evaluations, int ahead);

void replay(std::vector<RecordedSpace> spaces, const ReplayOptions& options);

}  // namespace warptune
