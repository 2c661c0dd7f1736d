#pragma once
// Reads one item of a section `ops_defined`: an op of the user, with its dims, tensors, cost, tolerance and
// reference. docs/custom-ops.md has the format.
#include <filesystem>

#include "harness/core/variant.h"
#include "harness/core/yaml_reader.h"

namespace warptune {

/// The op with one variant, `host_naive`, which is its reference on the host. `folder` is that of the file,
/// `reference_seconds` the time that a run of the reference may take. Throws InputError with file and line.
OpEntry read_defined_op(const YamlReader& yaml, const YAML::Node& node, const std::filesystem::path& folder,
                        double reference_seconds);

}  // namespace warptune
