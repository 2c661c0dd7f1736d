#pragma once
#include <CLI/CLI.hpp>
#include <set>

#include "harness/results/wisdom_merge.h"

namespace warptune {

/// Prints winners that a merge left out, grouped by the reason.
void print_refused(const std::set<RefusedWinner>& refused);

/// Adds push, pull and list to the command `wisdom`.
void add_wisdom_share(CLI::App& wisdom);

}  // namespace warptune
