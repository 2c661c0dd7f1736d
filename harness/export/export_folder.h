#pragma once
// The folder of exported plans: warptune.json and cubins (docs/export.md).
#include <filesystem>
#include <string>

#include "harness/export/plan_table.h"

namespace warptune {

/// The version of warptune.json: that of plans whose kernels all take the op's struct, and that of a folder
/// with a kernel that takes a list of arguments, which readers of the first one would launch wrongly.
inline constexpr int kExportSchema = 3;

/// Throws InputError unless the folder can be made, is empty, or holds nothing but an earlier export, which a
/// new one replaces.
void expect_export_folder(const std::filesystem::path& folder);

/// Compiles the kernels for `facts.arch`, and makes the folder hold them (export_files.h). Returns how many
/// cubins it holds. Throws CompileError, InputError, std::runtime_error.
std::size_t write_export(const std::filesystem::path& folder, const OpTable& ops, const PlanTable& table,
                         const Compiler& compiler, const DeviceFacts& facts);

/// The JSON of a table; `kernel_of` gives the cubin of a stage's kernel.
struct ExportedKernel {
  std::string file, entry;  // the cubin below the folder, and its kernel's lowered name
};
std::string export_json(const OpTable& ops, const PlanTable& table, const Compiler& compiler,
                        const DeviceFacts& facts,
                        const std::function<ExportedKernel(const ExportedPlan&, const Stage&)>& kernel_of);

}  // namespace warptune
