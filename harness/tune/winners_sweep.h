#pragma once
// The winners of a wisdom file as a sweep: one configuration per problem.
#include <string>
#include <vector>

#include "harness/results/wisdom.h"
#include "harness/tune/sweep.h"

namespace warptune {

/// The winners whose key matches `problem` (a regular expression; empty: all). Throws InputError for a wrong
/// expression and where nothing matches.
std::vector<Winner> winners_of(const Wisdom& wisdom, const std::string& problem);

/// Each winner in the cache state that it was tuned in, sampled by the other `options`. Skips winners whose
/// op, variant or configuration this program does not know, and adds each with the reason to `left_out`.
Sweep winners_sweep(const OpTable& ops, const std::vector<Winner>& winners, const std::string& name,
                    const BenchOptions& options, std::vector<std::string>& left_out);

}  // namespace warptune
