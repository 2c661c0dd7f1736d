#pragma once
// What a sweep means on a device: the configurations to try, problem by problem.
#include <string>
#include <vector>

#include "harness/tune/sweep.h"

namespace warptune {

struct Candidate {
  const Variant* variant = nullptr;
  Config config;
};

/// How many configurations a variant has for a problem, before and after the constraints, and how many of
/// them the sweep tries.
struct SpaceCount {
  const Variant* variant = nullptr;
  std::int64_t before = 0, after = 0, tried = 0;
};

/// At most `most` of the configurations, evenly spread, the first and the last among them; 0: all.
std::vector<Config> spread(std::vector<Config> configs, int most);

/// A configuration that a constraint excludes.
struct Excluded {
  Candidate candidate;
  std::string constraint;
};

struct PlannedProblem {
  const SweepItem* item = nullptr;
  std::vector<SpaceCount> counts;
  std::vector<Candidate> candidates;  // in canonical order: variants as listed, configurations as in Space
  std::vector<Excluded> excluded;     // only where the sweep wants rows of them
  std::string why_none;               // where there is no candidate, what excludes the first of them
};

/// `filter`: a regular expression searched for in "op/variant"; empty for all. Throws InputError for a wrong
/// filter, and where a file names variants of which none runs on this device.
std::vector<PlannedProblem> plan_sweep(const Sweep& sweep, const DeviceFacts& facts,
                                       const std::string& filter = {});

}  // namespace warptune
