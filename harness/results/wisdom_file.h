#pragma once
// The wisdom file of one folder. Several threads and programs may add to it.
#include <filesystem>
#include <functional>
#include <optional>

#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// The questions of put_winner() about the stored winner.
struct Contest {
  std::function<bool(const std::string& variant, const Config& config)> tried;  // in the new run
  std::function<CodeNow(const Winner&)> code;  // the current code of its variant (judge())
};

/// Adds a winner of the device in `here` to the file, and makes the file if needed. A model runs cold, so a
/// cold winner always replaces a hot one and never the reverse. In the same cache state the new winner
/// replaces the stored one if that configuration was tried too, is stale or is slower; a winner of the same
/// configuration keeps the ties that were not tried. The file keeps the times of both (add_times()), unless
/// the stored ones are impossible. Returns the stored winner if it stays. Reads the file again under a lock,
/// so that no winners of others are lost.
std::optional<Winner> put_winner(const std::filesystem::path& path, const Provenance& here, Winner winner,
                                 const Contest& contest);
/// The same for a winner without competitors: it replaces nothing.
std::optional<Winner> add_winner(const std::filesystem::path& path, const Provenance& here,
                                 const Winner& winner);
/// Adds the winner of a model step, or replaces the one of the same step and device.
void put_step(const std::filesystem::path& path, const Provenance& here, StepWinner winner);
/// Merges into the file: `add` gets its wisdom, or an empty one of `here`. Returns whether that changed the
/// file; equal wisdom is not written again.
bool change_wisdom(const std::filesystem::path& path, const Provenance& here,
                   const std::function<void(Wisdom&)>& add);
/// Sets the file's provenance and checks that it can be written; makes the file if needed.
void open_wisdom(const std::filesystem::path& path, const Provenance& provenance);

}  // namespace warptune
