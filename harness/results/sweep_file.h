#pragma once
// The strict reader of sweep CSVs that all commands use.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/journal.h"

namespace warptune {

/// The error in the name of a sweep, or empty. The name is part of file names, and some names belong to other
/// files.
std::string fault_of_sweep_name(const std::string& name);

/// Whether columns are those of a sweep, in any schema.
bool looks_like_sweep(const std::vector<std::string>& columns);

/// The rows of a sweep. Throws InputError with file and line for another schema or other columns, an unknown
/// status or cache state, a text instead of a number, or an ok row without a time.
std::vector<CsvRow> read_sweep(const std::filesystem::path& csv);

}  // namespace warptune
