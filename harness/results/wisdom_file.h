#pragma once
// The wisdom of one folder, which several threads and programs may add to.
#include <filesystem>
#include <functional>
#include <optional>

#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// What the rule of put_winner() asks of the winner that is there.
struct Contest {
  std::function<bool(const std::string& variant, const Config& config)> tried;  // beside the new winner
  std::function<CodeNow(const Winner&)> code;  // of its variant as it is now (judge())
};

/// Adds a winner of the device that `here` says to the file, made where it is missing. A cold one that is
/// there never gives way to a hot one, and a hot one always to a cold one: a model runs cold. Of the same
/// state it gives way where its configuration was tried too, where it is stale, or where the new one is
/// faster; the same configuration again keeps the ties that were not tried. The times of both are kept
/// (add_times()). Returns the one that stays instead, if any. The file is read again under a lock, so that
/// nobody's winners are lost.
std::optional<Winner> put_winner(const std::filesystem::path& path, const Provenance& here, Winner winner,
                                 const Contest& contest);
/// The same for a winner that had no rivals: it replaces nothing.
std::optional<Winner> add_winner(const std::filesystem::path& path, const Provenance& here,
                                 const Winner& winner);
/// Makes the file where it is missing and proves that it can be written; its provenance becomes this one.
void open_wisdom(const std::filesystem::path& path, const Provenance& provenance);

}  // namespace warptune
