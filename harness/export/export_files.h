#pragma once
// The files of an export in its folder: what an earlier export wrote and listed, and how a new one takes its
// place. A kill at any point leaves the earlier export or the new one, and a list of the files of both.
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace warptune {

/// The list of plans. It names every cubin.
inline constexpr const char* kExportIndex = "warptune.json";
/// "cubins/HASH.cubin": the name of machine code, by a hash of its content.
std::string cubin_name(const std::string& code);

/// The paths below the folder of the files that earlier exports wrote and listed. Throws InputError where the
/// folder holds anything else, or a listed file that has changed.
std::set<std::string> files_of_exports(const std::filesystem::path& folder);

/// Makes the folder hold this export: writes what it lacks, then the index, and then removes what earlier
/// exports wrote and this one does not need. `cubins`: code by name. Throws InputError as above,
/// std::runtime_error where the disk refuses it; the earlier export is then complete.
void replace_export(const std::filesystem::path& folder, const std::map<std::string, std::string>& cubins,
                    const std::string& index);

}  // namespace warptune
