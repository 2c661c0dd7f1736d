#pragma once
// One function per command: it adds the command to the program. Running the command sets `exit_code`.
#include <CLI/CLI.hpp>
#include <string>

namespace warptune {

/// Adds all commands.
void add_commands(CLI::App& app, int& exit_code);
/// One sentence about an error in the arguments. Suggests the nearest subcommand or option for an unknown
/// one.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error);

void add_devices(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_calibrate(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_merge(CLI::App& app, int& exit_code);
void add_decode(CLI::App& app, int& exit_code);
void add_wisdom(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_history(CLI::App& app, int& exit_code);
void add_bisect(CLI::App& app, int& exit_code);
void add_rerun(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_counters(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_export_t4(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);  // import-trace, export-trace
void add_new(CLI::App& app, int& exit_code);
void add_worker(CLI::App& app, int& exit_code);
void add_nvrtc(CLI::App& app, int& exit_code);

// Parts of the command `wisdom`.
void add_wisdom_watch(CLI::App& wisdom);
void add_wisdom_share(CLI::App& wisdom);  // push, pull, list

}  // namespace warptune
