#pragma once
// The commands that write and read the formats of other tools (docs/exchange.md).
#include <CLI/CLI.hpp>

namespace warptune {

void add_export_t4(CLI::App& app);
/// import-trace and export-trace.
void add_trace(CLI::App& app);

}  // namespace warptune
