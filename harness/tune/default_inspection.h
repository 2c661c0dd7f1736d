#pragma once
// Compiles the defaults of the tile table for architectures that need not be here.
#include <cstdio>
#include <string>
#include <vector>

namespace warptune {

/// Prints for each example of the table what it defaults to, with registers, shared memory, spills and
/// occupancy. Returns how many have no row, or one that does not compile or fit the device.
std::size_t inspect_defaults(const std::vector<std::string>& archs, int lanes, std::FILE* log = stdout);

}  // namespace warptune
