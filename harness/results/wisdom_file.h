#pragma once
// The wisdom of one folder, which several threads and programs may add to.
#include <filesystem>

#include "results/wisdom.h"

namespace warptune {

/// Adds a winner to the file, made where it is missing. The file is read again under a lock, so that nobody's
/// winners are lost.
void put_winner(const std::filesystem::path& path, const Provenance& provenance, const Winner& winner);
/// Makes the file where it is missing and proves that it can be written; its provenance becomes this one.
void open_wisdom(const std::filesystem::path& path, const Provenance& provenance);

}  // namespace warptune
