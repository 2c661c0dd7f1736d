#pragma once
// The table of ops with the ops and kernels that files define, beside the built-in variants
// (docs/custom-kernels.md).
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"
#include "harness/device/compile.h"

namespace warptune {

/// Whether a file, of which this is the root, defines kernels or ops, or names files that do.
bool defines_kernels(const YAML::Node& root);

/// The time that a run of a reference from a file may take, unless a command says otherwise.
inline constexpr double kReferenceSeconds = 180;

/// Files that define kernels, for another process, which must find the same kernels in them.
struct KernelFiles {
  std::vector<std::filesystem::path> paths;  // absolute
  std::string hash;                          // the hash of the kernels, as they were read
  double reference_seconds = kReferenceSeconds;
};

/// A hash of the definitions and sources of all kernels from files in a table (16 hex digits).
std::string hash_of_kernels(const OpTable& ops);

/// A copy of the table with the ops and kernels of the files: of their sections `ops_defined` and `kernels`,
/// and of the files in their lists `kernel_files`. Other sections are ignored, so that a sweep is such a
/// file. Throws InputError: with file and line, or where a file defines none.
std::shared_ptr<const OpTable> with_kernels(const OpTable& base, std::span<const std::filesystem::path> files,
                                            double reference_seconds = kReferenceSeconds);

/// Whether the op's kernels map memory of other GPUs, which kernels from a file do not get.
bool exchanges_between_gpus(const OpEntry& entry);

/// The op that an item of a section `kernels` is for. Throws InputError with file and line.
std::string op_of_kernel(const YamlReader& yaml, const YAML::Node& node);

/// The variant that the item is. `folder` is that of the file. Throws InputError with file and line.
Variant read_kernel(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                    const std::filesystem::path& folder);

/// The first files of a kernel of the user, the naive kernel of its op, to be changed, and the sweep that
/// tunes it: name and text of a .cu and a .yaml. The kernel is correct as it is. Throws InputError where the
/// op has no naive kernel.
std::vector<std::pair<std::string, std::string>> kernel_skeleton(const OpEntry& entry,
                                                                 const std::string& name,
                                                                 const KernelSources& sources);

/// The same for an op of the user: a kernel, a reference in C++ and a .yaml. All are correct as they are.
/// Throws InputError where an expression could not use the name.
std::vector<std::pair<std::string, std::string>> op_skeleton(const std::string& name);

}  // namespace warptune
