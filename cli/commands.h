#pragma once
// One function per command: it adds the command to the program. Running the command sets `exit_code`.
#include <CLI/CLI.hpp>
#include <string>

namespace warptune {

using AddCommand = void(CLI::App& app, int& exit_code);
AddCommand add_commands;  // all
AddCommand add_devices, add_list, add_tune, add_calibrate, add_inspect, add_merge, add_decode, add_wisdom,
    add_quantize, add_export, add_report, add_compare, add_history, add_bisect, add_rerun, add_bench,
    add_profile, add_counters, add_simulate, add_new, add_worker, add_nvrtc;
AddCommand add_trace;  // import-trace, export-trace
AddCommand add_export_t4;

/// One sentence about an error in the arguments. Suggests the nearest subcommand or option for an unknown
/// one.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error);

// Parts of the command `wisdom`.
void add_wisdom_share(CLI::App& wisdom);  // push, pull, list

}  // namespace warptune
