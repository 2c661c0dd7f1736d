#pragma once
// Compiles the defaults of the tile table for architectures that need not be here.
#include <cstdio>
#include <string>
#include <vector>

#include "harness/core/op_table.h"

namespace warptune {

/// Prints the default of each example with registers, shared memory, spills and
/// occupancy. Returns how many have no row, or one that does not compile or fit the device.
std::size_t inspect_defaults(const OpTable& ops, const std::vector<Problem>& examples,
                             const std::vector<std::string>& archs, int lanes, std::FILE* log = stdout);

}  // namespace warptune
