#pragma once
// Names that come from data (a JSON, a YAML, a wisdom) and become names of files.
#include <filesystem>
#include <string>
#include <string_view>

namespace warptune {

/// The error in a text that is to name one file or folder; empty if there is none. Such a name leads to no
/// other folder, hides nothing, and needs no quotes in a shell.
std::string fault_of_file_name(std::string_view name);

/// FOLDER/NAME for a name of several parts ("kernels/common/tma.cuh"). Throws InputError where one part is
/// no such name, as ".." or the "/" of an absolute path.
std::filesystem::path path_below(const std::filesystem::path& folder, const std::filesystem::path& name);

}  // namespace warptune
