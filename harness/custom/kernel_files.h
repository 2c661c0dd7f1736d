#pragma once
// The table of ops with the ops and kernels that files define, beside the built-in variants.
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/core/yaml_reader.h"

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

}  // namespace warptune
