#pragma once
// The winners of a wisdom file as a sweep of their own: one configuration per problem.
#include <string>
#include <vector>

#include "harness/results/wisdom.h"
#include "harness/tune/sweep.h"

namespace warptune {

/// Winners whose problem matches `problem` (a regular expression searched for in the key; empty: all). Throws
/// InputError where it is none, or where nothing matches.
std::vector<Winner> winners_of(const Wisdom& wisdom, const std::string& problem);

/// A winner whose op or variant is not in this program any more, or whose configuration does not fit its
/// variant, is left out and named in `left_out` with the reason.
Sweep winners_sweep(const OpTable& ops, const std::vector<Winner>& winners, const std::string& name,
                    const BenchOptions& options, std::vector<std::string>& left_out);

}  // namespace warptune
