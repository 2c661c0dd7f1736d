#pragma once
// The limits of a launch that are the same on all devices (CUDA C++ Programming Guide, "Compute
// Capabilities").
#include <optional>
#include <string>

#include "harness/core/variant.h"

namespace warptune {

/// The limit that the geometry of a launch exceeds: "has a grid of 65536 along y; 1 to 65535 are possible".
std::optional<std::string> exceeded_launch_limit(const Launch& launch);

}  // namespace warptune
