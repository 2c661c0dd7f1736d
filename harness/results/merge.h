#pragma once
// Merges the results of several nodes or devices.
#include <filesystem>
#include <set>
#include <vector>

#include "harness/results/wisdom_merge.h"

namespace warptune {

struct MergeCounts {
  std::size_t files = 0, rows = 0;  // sweep files and their rows
  std::size_t duplicates = 0;       // dropped rows of sweeps
  std::size_t winners = 0;
  std::set<RefusedWinner> refused = {};  // left out: a time below what its device can reach
};

/// Merges output folders (OUT/<device>/...) into `out`; an existing `out` is one of the inputs. Of rows with
/// the same key and status it keeps the first; rows without a key are duplicates if they are equal. Of two
/// winners of a problem it keeps the better one (is_better(), results/staleness.h) with its provenance and
/// ties, and the times of both (add_times()). Throws InputError before it writes anything.
MergeCounts merge_results(const WinnerJudge& judge, const std::vector<std::filesystem::path>& inputs,
                          const std::filesystem::path& out);

}  // namespace warptune
