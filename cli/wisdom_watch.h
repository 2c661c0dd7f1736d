#pragma once
#include <CLI/CLI.hpp>

namespace warptune {

/// Adds watch to the command `wisdom`.
void add_wisdom_watch(CLI::App& wisdom);

}  // namespace warptune
