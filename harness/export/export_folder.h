#pragma once
// The folder of exported plans: warptune.json and cubins (docs/export.md).
#include <filesystem>
#include <string>

#include "harness/export/plan_table.h"

namespace warptune {

/// The version of warptune.json. include/warptune/launch.h reads the same one.
inline constexpr int kExportSchema = 1;

/// Throws InputError unless the folder can be made, is empty, or holds an earlier export, which a new one
/// replaces.
void expect_export_folder(const std::filesystem::path& folder);

/// Compiles the kernels for `facts.arch` and writes the folder: beside its name, and then renamed, so that
/// nothing is half-written. Returns how many cubins it holds. Throws CompileError, std::runtime_error.
std::size_t write_export(const std::filesystem::path& folder, const OpTable& ops, const PlanTable& table,
                         const Compiler& compiler, const DeviceFacts& facts);

/// The JSON of a table; `code_of` gives the cubin of a stage's kernel.
struct ExportedKernel {
  std::string file, entry;  // the cubin below the folder, and its kernel's lowered name
};
std::string export_json(const OpTable& ops, const PlanTable& table, const Compiler& compiler,
                        const DeviceFacts& facts,
                        const std::function<ExportedKernel(const StageModel&)>& kernel_of);

}  // namespace warptune
