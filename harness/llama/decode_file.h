#pragma once
// The CSV of decode: one row per run, appended by every run.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harness/results/csv.h"

namespace warptune {

/// Opens or creates the file. Checks existing rows as strictly as those of a sweep. Throws InputError with
/// file and line for other columns, another schema or a text instead of a number, and if the file cannot be
/// written. Removes an incomplete last line and passes a sentence about it to `tell`.
std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell);

}  // namespace warptune
