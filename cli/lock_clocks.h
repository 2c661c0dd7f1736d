#pragma once
// The option --lock-clocks.
#include <CLI/CLI.hpp>
#include <optional>

#include "harness/device/clock_control.h"

namespace warptune {

/// `request` gets a value if the option is given; it must outlive the command.
void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request);

}  // namespace warptune
