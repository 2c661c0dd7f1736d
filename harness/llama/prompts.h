#pragma once
// What the model is fed: token ids from a file, or random ones.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace warptune {

/// One prompt per line, ids apart by blanks or commas; empty lines are skipped. Throws InputError.
std::vector<std::vector<int>> read_prompts(const std::filesystem::path& file);

/// `batch` prompts of random ids; the lengths are taken in turn.
std::vector<std::vector<int>> random_prompts(int batch, std::span<const int> lengths, int vocab,
                                             std::uint64_t seed);

}  // namespace warptune
