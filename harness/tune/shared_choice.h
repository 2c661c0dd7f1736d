#pragma once
// One configuration for a family of problems: engines ship one kernel for many shapes.
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/problem.h"

namespace warptune {

/// The times of the configurations of one problem that are correct, all sampled in the screening.
struct ProblemTimes {
  std::filesystem::path csv;  // of the device
  std::string cache;
  Problem problem;
  std::map<std::pair<std::string, std::string>, double> us;  // by variant and configuration
};

/// The configuration with the best geometric mean over a family.
struct SharedChoice {
  struct Part {
    Problem problem;
    double us = 0, best_us = 0;  // with the shared configuration, and with the problem's fastest
  };
  std::vector<Part> parts;
  std::string variant, config;  // empty: none was tried on every problem
  double loss = 0;              // geometric mean of us / best_us
};

/// The choices for the families of problems that differ in the dims of `share` only, in the order of their
/// first problems. A single problem is no family.
std::vector<SharedChoice> shared_choices(const std::vector<ProblemTimes>& problems,
                                         const std::vector<std::string>& share);

/// Prints the choices and their losses, and writes them to SWEEP.shared.csv beside the CSV of each device.
/// Throws std::runtime_error where a file cannot be written.
void report_shared_choices(std::FILE* log, const std::vector<ProblemTimes>& problems,
                           const std::vector<std::string>& share);

}  // namespace warptune
