#pragma once
// The launch that `profile` and `counters` put under a profiler, as the command line names it.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/options.h"
#include "cli/wisdom_in_use.h"
#include "harness/tune/profile.h"

namespace warptune {

struct TargetOptions {
  std::string target, problem, dtype = "bf16", config, wisdom, device = "auto";
  KernelOption kernels;
};

/// TARGET, --problem, --dtype, --config, --wisdom, --device, --as and --kernels. `options` must live as long
/// as `command`.
void add_target_options(CLI::App& command, TargetOptions& options);

/// The wisdom of --wisdom, else of WARPTUNE_WISDOM for the device, which it opens. Throws InputError.
WisdomInUse target_wisdom(const TargetOptions& options);

/// The problem of "rms_norm[tokens=1,hidden=4096]"; `dtype` applies if the text has no dtype. Throws
/// InputError.
Problem problem_of(const OpTable& ops, const std::string& text, const std::string& dtype);

/// Throws InputError for an unknown name, a problem of several ranks, and where the wisdom holds no such
/// winner.
ProfileTarget target_of(const TargetOptions& options);

/// Notes values that the variant does not list: a sweep may try them, so they are no error.
void note_unlisted(const OpTable& ops, const ProfileTarget& target);

}  // namespace warptune
