#pragma once
// Compiles the configurations of a sweep, or the defaults of the tile table, for architectures that need not
// be present.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/tune/sweep.h"

namespace warptune {

inline constexpr double kMaxCompileSeconds = 3600;  // of one configuration

struct InspectOptions {
  std::vector<std::string> archs;  // "sm_80", "sm_90a"
  std::string filter;              // regular expression over op/variant
  int sample = 0;                  // limit of configurations per problem and variant; 0: all
  int per_variant = 0;             // limit of configurations per variant of the sweep; 0: all
  int compile_jobs = 0;            // compile threads; 0: all hardware threads but one
  std::filesystem::path program = "/proc/self/exe";  // started as `program nvrtc`
  std::filesystem::path csv;                         // a row per configuration; empty: none
  std::FILE* log = stdout;
};

/// Prints a table of registers, shared memory, spills and occupancy per variant. Returns the number of
/// configurations that do not compile. Configurations that need more than the device has are counted, but are
/// no failures.
std::size_t inspect_sweep(const Sweep& sweep, const InspectOptions& options);

/// Prints the default of each example problem of the tile table, with registers, shared memory, spills and
/// occupancy. Returns the number of defaults that are missing, do not compile or do not fit the device.
std::size_t inspect_defaults(const OpTable& ops, const std::vector<Problem>& examples,
                             const std::vector<std::string>& archs, int compile_jobs,
                             std::FILE* log = stdout);

}  // namespace warptune
