#pragma once
#include <CLI/CLI.hpp>

namespace warptune {

/// Registers `warptune decode`. It throws InputError for bad input; a failed check sets the exit code to 1.
void add_decode(CLI::App& app, int& exit_code);

}  // namespace warptune
