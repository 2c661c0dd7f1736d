#pragma once
// The limits of a launch that are the same on all devices (CUDA C++ Programming Guide, "Compute
// Capabilities").
#include <optional>
#include <string>

#include "harness/core/variant.h"

namespace warptune {

/// The limit that the geometry of a launch exceeds: "needs 65536 blocks along y of the grid, the limit is
/// 65535".
std::optional<std::string> exceeded_launch_limit(const Launch& launch);

}  // namespace warptune
