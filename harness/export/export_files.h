#pragma once
// The folder of exported plans: warptune.json and cubins (docs/export.md). A new export takes the place of an
// earlier one, of what it wrote and listed. A kill at any point leaves the earlier export or the new one, and
// a list of the files of both.
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "harness/export/plan_table.h"

namespace warptune {

/// The list of plans. It names every cubin.
inline constexpr const char* kExportIndex = "warptune.json";
/// "cubins/HASH.cubin": the name of machine code, by a hash of its content.
std::string cubin_name(const std::string& code);

/// The paths below the folder of the files that earlier exports wrote and listed. Throws InputError where the
/// folder holds anything else, or a listed file that has changed.
std::set<std::string> files_of_exports(const std::filesystem::path& folder);

/// Makes the folder hold this export: writes what it lacks, then the index, and then removes what earlier
/// exports wrote and this one does not need. `cubins`: code by name. Throws InputError as above,
/// std::runtime_error where the disk refuses it; the earlier export is then complete.
void replace_export(const std::filesystem::path& folder, const std::map<std::string, std::string>& cubins,
                    const std::string& index);

/// The version of warptune.json: that of plans whose kernels all take the op's struct, and that of a folder
/// with a kernel that takes a list of arguments, which readers of the first one would launch wrongly.
inline constexpr int kExportSchema = 3;

/// Throws InputError unless the folder can be made, is empty, or holds nothing but an earlier export, which a
/// new one replaces.
void expect_export_folder(const std::filesystem::path& folder);

/// Compiles the kernels for `facts.arch`, and makes the folder hold them. Returns how many
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
