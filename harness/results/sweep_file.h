#pragma once
// Reading the CSV of a sweep, strictly: what every command that takes one reads it with.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/results/journal.h"

namespace warptune {

/// What is wrong with the name of a sweep; empty where nothing is. The files of a sweep bear its name, and
/// some names mean other files.
std::string fault_of_sweep_name(const std::string& name);

/// Whether columns are those of a sweep in this schema or another, and not of some other table.
bool looks_like_sweep(const std::vector<std::string>& columns);

/// Its rows. Throws InputError with file and line where it has another schema or other columns, a status or
/// cache state that is no such word, a field that must be a number and is none, or an ok row without a time.
std::vector<CsvRow> read_sweep(const std::filesystem::path& csv);

}  // namespace warptune
