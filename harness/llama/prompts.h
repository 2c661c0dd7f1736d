#pragma once
// Prompts: token ids from a file, or random ones.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace warptune {

/// One prompt per line, ids separated by blanks or commas. Throws InputError, also for an empty line.
std::vector<std::vector<int>> read_prompts(const std::filesystem::path& file);

/// `batch` prompts of random ids; cycles through the lengths.
std::vector<std::vector<int>> random_prompts(int batch, std::span<const int> lengths, int vocab,
                                             std::uint64_t seed);

}  // namespace warptune
