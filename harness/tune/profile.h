#pragma once
// One launch of one configuration under a profiler, and the command that starts the profiler on it.
#include <filesystem>
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
  std::vector<std::filesystem::path> kernel_files = {};  // that define kernels of the user

  /// "rms_norm/vectorized/rms_norm[tokens=1,hidden=4096,dtype=bf16]", the name of the NVTX range.
  std::string name() const;
};

/// Verifies the target once, then launches it once inside the profiler's range. Throws CheckError where the
/// result is wrong.
void run_profiled(const OpTable& ops, const ProfileTarget& target);

/// The command line with which `program` does that.
std::vector<std::string> inside_command(const std::filesystem::path& program, const ProfileTarget& target);
/// `tool` ("ncu" or "nsys") on that command. `sources` is a folder with the kernels, `report` the file to
/// write, without extension.
std::vector<std::string> profiler_command(const std::string& tool, const std::filesystem::path& program,
                                          const ProfileTarget& target, const std::filesystem::path& sources,
                                          const std::filesystem::path& report);

/// Writes the kernel sources of a variant below a folder, under the names that their line tables hold: all or
/// none, by the rule of results/output_file.h.
void write_sources(const OpTable& ops, const ProfileTarget& target, const std::filesystem::path& folder,
                   const std::vector<std::filesystem::path>& inputs = {}, bool force = false);

/// The command as one line for a shell, quoted where needed.
std::string shell_text(const std::vector<std::string>& command);
/// The path of a program, from the PATH or the CUDA Toolkit.
std::optional<std::filesystem::path> find_tool(const std::string& name);

}  // namespace warptune
