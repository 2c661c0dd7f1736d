#pragma once
// Files that survive a crash of the machine: when these functions return, the data is on the disk.
#include <filesystem>
#include <string_view>

namespace warptune {

/// Makes the folder and its parents. Throws std::runtime_error that names it.
void make_folder(const std::filesystem::path& folder);
/// Writes the text at the position of an open file, and fsyncs. Throws std::runtime_error with `path` if the
/// disk refuses it.
void write_and_sync(int file, std::string_view text, const std::filesystem::path& path);
/// Fsyncs the folder of a path, so that a new file in it survives a crash.
void sync_folder_of(const std::filesystem::path& path);
/// Writes a temporary file and renames it: after a crash there is either the old or the new file. Makes its
/// folder. On failure it removes the temporary file and throws std::runtime_error.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Checks that a file, a folder or files in that folder can be made; leaves nothing behind. Throws
/// InputError. Commands that write at their end call it before the work.
void expect_writable(const std::filesystem::path& path);

}  // namespace warptune
