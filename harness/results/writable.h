#pragma once
#include <filesystem>

namespace warptune {

/// Proves that a file or folder can be made, or files in that folder; leaves nothing behind. Throws
/// InputError. For commands that write at their end, so that they say it before the work.
void expect_writable(const std::filesystem::path& path);

}  // namespace warptune
