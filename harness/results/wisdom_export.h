#pragma once
// Wisdom for other programs: a C++17 header without dependencies.
#include <string>

#include "harness/results/wisdom.h"

namespace warptune {

/// namespace warptune_wisdom: a constexpr table and find(problem key, device), value(winner, parameter).
std::string to_header(const Wisdom& wisdom);

}  // namespace warptune
