#pragma once
// Options that several commands have. What they set must outlive the command.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "harness/device/clock_control.h"

namespace warptune {

/// --device: "auto", "cuda:N" or "host".
void add_device(CLI::App& command, std::string& device);
inline constexpr const char* kAsHelp =
    "An older architecture that the GPU rehearses: sm_80 has its features and limits, and a folder of its "
    "own";
/// --as (docs/a100.md), after add_device(): `device` gets a name for open_device() that has both.
void add_as(CLI::App& command, std::string& device);
/// --problem: a regular expression over keys.
void add_problem_filter(CLI::App& command, std::string& pattern);
/// --filter of a sweep.
CLI::Option* add_sweep_filter(CLI::App& command, std::string& pattern);
/// --jobs: 0 means the default of compile_jobs() (tune/compile_pool.h).
void add_jobs(CLI::App& command, int& jobs);
/// --force: replace an existing output.
void add_force(CLI::App& command, bool& force);
/// --lock-clocks; `request` gets a value if the option is given.
void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request);

/// A number of this range. Unlike CLI::Range it refuses NaN.
CLI::Validator within(double low, double high);

}  // namespace warptune
