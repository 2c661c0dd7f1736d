#pragma once
#include <CLI/CLI.hpp>

namespace warptune {

/// Adds push, pull and list to the command `wisdom`.
void add_wisdom_share(CLI::App& wisdom);

}  // namespace warptune
