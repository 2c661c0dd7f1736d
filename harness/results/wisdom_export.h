#pragma once
// Wisdom for other programs: a C++17 header without dependencies.
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// namespace warptune_wisdom: a constexpr table and find(problem key, device), value(winner, parameter).
std::string to_header(const Wisdom& wisdom);

/// One sentence per winner with an op, dims or a variant that this program does not have.
std::vector<std::string> unknown_winners(const OpTable& ops, const Wisdom& wisdom);

}  // namespace warptune
