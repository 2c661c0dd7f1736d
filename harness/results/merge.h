#pragma once
// Joins what several nodes or devices measured.
#include <filesystem>
#include <vector>

#include "harness/core/op_table.h"

namespace warptune {

struct MergeCounts {
  std::size_t files = 0, rows = 0;  // of sweeps
  std::size_t duplicates = 0;       // rows that were dropped, of sweeps
  std::size_t winners = 0;
};

/// Joins output folders (OUT/<device>/...) into `out`, which may exist and is then one of them. Rows with the
/// same key and status are kept once, the first; without a key, rows that are equal. Of two winners of a
/// problem the better one stays (is_better(), results/staleness.h), with its provenance and ties, and the
/// times of both (add_times()). Throws InputError before anything is written.
MergeCounts merge_results(const OpTable& ops, const std::vector<std::filesystem::path>& inputs,
                          const std::filesystem::path& out);

}  // namespace warptune
