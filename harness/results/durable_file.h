#pragma once
// Files that outlive a crash of the machine: what was written is on the disk when these functions return.
#include <filesystem>
#include <string_view>

namespace warptune {

/// The folder and those above it. Throws std::runtime_error that names it.
void make_folder(const std::filesystem::path& folder);
/// Writes the whole text where an open file stands, and fsyncs. `path`: what the file is called in the
/// std::runtime_error that is thrown where the disk does not take it.
void write_and_sync(int file, std::string_view text, const std::filesystem::path& path);
/// Fsyncs the names in the folder of a path: a file that is new there stays.
void sync_folder_of(const std::filesystem::path& path);
/// A whole file, written beside and renamed: after a crash there is the one of before or this one. Makes its
/// folder. Throws std::runtime_error, and leaves nothing beside it then.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Proves that a file or folder can be made, or files in that folder; leaves nothing behind. Throws
/// InputError. For commands that write at their end, so that they say it before the work.
void expect_writable(const std::filesystem::path& path);

}  // namespace warptune
