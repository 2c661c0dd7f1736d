#pragma once
// Reads one item of a section `kernels`: a variant of an op whose code is a file of the user.
// docs/custom-kernels.md has the format.
#include <filesystem>

#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"

namespace warptune {

/// Whether the op's kernels map memory of other GPUs, which kernels from a file do not get.
bool exchanges_between_gpus(const OpEntry& entry);

/// The op that the item is for. Throws InputError with file and line.
std::string op_of_kernel(const YamlReader& yaml, const YAML::Node& node);

/// `folder` is that of the file. Throws InputError with file and line.
Variant read_kernel(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                    const std::filesystem::path& folder);

}  // namespace warptune
