#pragma once
// One launch of one configuration under a profiler, and the command that starts the profiler on it.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/op_table.h"

namespace warptune {

struct ProfileTarget {
  Problem problem;
  std::string variant;
  Config config;
  std::string device = "auto";

  /// "rms_norm/vectorized/rms_norm[tokens=1,hidden=4096,dtype=bf16]", the name of the NVTX range.
  std::string name() const;
};

/// Verifies the target once, then launches it once inside the profiler's range. Throws CheckError where the
/// result is wrong.
void run_profiled(const OpTable& ops, const ProfileTarget& target);

/// The arguments with which `program` does that.
std::vector<std::string> inside_command(const std::filesystem::path& program, const ProfileTarget& target);
/// `tool` ("ncu" or "nsys") on that command. `sources` is a folder with the kernels, `report` the file to
/// write, without extension.
std::vector<std::string> profiler_command(const std::string& tool, const std::filesystem::path& program,
                                          const ProfileTarget& target, const std::filesystem::path& sources,
                                          const std::filesystem::path& report);
/// ncu printing these metrics of that one launch as CSV.
std::vector<std::string> counters_command(const std::filesystem::path& program, const ProfileTarget& target,
                                          const std::vector<std::string>& metrics);

/// Writes the kernel sources of a variant below a folder, under the names that their line tables hold.
void write_sources(const OpTable& ops, const ProfileTarget& target, const std::filesystem::path& folder);

/// For a shell: quoted where needed, spaces between.
std::string shell_text(const std::vector<std::string>& command);
/// Where a program is on the PATH or where the CUDA Toolkit puts it.
std::optional<std::filesystem::path> find_tool(const std::string& name);

/// The metrics that `counters` reads by default.
const std::vector<std::string>& default_metrics();
/// Of a CSV that ncu printed (--page raw --print-units base), the values of the metrics over all kernels:
/// sums (".sum") are added up, the rest averaged by duration where there is gpu__time_duration.sum. "kernels"
/// counts them. What is not there, or "n/a", is left out.
std::map<std::string, double> parse_ncu_csv(const std::string& text, const std::vector<std::string>& metrics);

}  // namespace warptune
