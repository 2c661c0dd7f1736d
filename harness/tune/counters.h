#pragma once
// Hardware counters of one launch, which ncu reads, and what the program computes about the same kernels.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/tune/profile.h"

namespace warptune {

/// One kernel of a launch.
struct KernelCounters {
  std::string kernel;                    // "linear_gemv_split_k", without template arguments
  std::map<std::string, double> values;  // by metric; ncu may have failed to read some
};

/// What `counters` reads by default: time, DRAM bytes, L2 hit rate, occupancy, issue slots, instructions,
/// tensor pipe, and wavefronts and bank conflicts of shared memory.
const std::vector<std::string>& default_metrics();

/// The ncu command that prints these metrics of one launch of the target as CSV.
std::vector<std::string> counters_command(const std::filesystem::path& program, const ProfileTarget& target,
                                          const std::vector<std::string>& metrics);

/// The kernels in a CSV that ncu printed (--page raw --print-units base), in the order of their launches.
std::vector<KernelCounters> parse_ncu_csv(const std::string& text, const std::vector<std::string>& metrics);

/// The computed occupancy of each kernel by name: resident warps in percent of the SM's limit. Kernels of
/// libraries, and kernels that do not compile, are missing.
std::map<std::string, double> computed_occupancy(const OpTable& ops, const Compiler& compiler,
                                                 const ProfileTarget& target, const DeviceFacts& facts);

/// A table from the default metrics: a line per kernel, measured beside computed values. `bytes`: the memory
/// traffic of the op. A value whose metrics are missing is empty.
std::string counters_text(const std::vector<KernelCounters>& kernels,
                          const std::map<std::string, double>& occupancy, double bytes, bool colored);

}  // namespace warptune
