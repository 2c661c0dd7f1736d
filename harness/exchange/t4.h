#pragma once
// Rows of a sweep in T4, the format for results of the auto-tuning methodology project (schema 1.0.0).
#include <filesystem>
#include <string>

#include "harness/core/op_table.h"

namespace warptune {

/// The configurations of the one problem of a sweep's CSV that `pattern` (a regular expression) leaves: those
/// that `simulate` takes, each with its last row, with "variant" as a parameter, and the samples that the
/// sweep kept. Throws InputError where the pattern leaves no problem or several.
std::string to_t4(const OpTable& ops, const std::filesystem::path& csv, const std::string& pattern);

}  // namespace warptune
