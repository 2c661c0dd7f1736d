#pragma once
// The winners of a wisdom file as a sweep: one configuration per problem.
#include <string>
#include <vector>

#include "harness/results/wisdom.h"
#include "harness/tune/sweep.h"

namespace warptune {

/// The winners whose key matches `problem` (a regular expression, core/pattern.h; empty: all). Throws
/// InputError for a wrong expression and, unless there `may_be_none`, where nothing matches.
std::vector<Winner> winners_of(const OpTable& ops, const Wisdom& wisdom, const std::string& problem,
                               bool may_be_none = false);
/// The steps whose key matches; there may be none.
std::vector<StepWinner> steps_of(const OpTable& ops, const Wisdom& wisdom, const std::string& problem);

/// Each winner in the cache state that it was tuned in, sampled by the other `options`. Skips winners whose
/// op, variant or configuration this program does not know, and adds each with the reason to `left_out`.
Sweep winners_sweep(const OpTable& ops, const std::vector<Winner>& winners, const std::string& name,
                    const BenchOptions& options, std::vector<std::string>& left_out);

/// A sweep in YAML that tunes the problems of `winners` again, each once and in its cache state. `heading`:
/// its first lines, comments.
std::string to_sweep_text(const std::vector<Winner>& winners, const std::string& heading);

/// Adds the steps of presets, and of checkpoints in these folders, with their recorded plans. The others are
/// added to `left_out`.
void add_steps(Sweep& sweep, const std::vector<StepWinner>& steps, const std::vector<std::string>& folders,
               std::vector<std::string>& left_out);

}  // namespace warptune
