#pragma once
// Compiles every configuration of a sweep for architectures that need not be here.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/tune/sweep.h"

namespace warptune {

struct InspectOptions {
  std::vector<std::string> archs;  // "sm_80", "sm_90a"
  std::string filter;              // regular expression over op/variant
  int sample = 0;                  // at most so many configurations per problem and variant; 0: all
  int lanes = 0;                   // compile threads; 0: all but one of the machine
  std::filesystem::path csv;       // a row per configuration; empty: none
  std::FILE* log = stdout;
};

/// Prints a table of registers, shared memory, spills and occupancy per variant. Returns how many
/// configurations do not compile. Those that ask for more than the device has are counted, not failures.
std::size_t inspect_sweep(const Sweep& sweep, const InspectOptions& options);

}  // namespace warptune
