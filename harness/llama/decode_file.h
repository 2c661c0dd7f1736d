#pragma once
// The CSV of decode, one row per run, which goes on from run to run.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harness/results/csv.h"

namespace warptune {

/// Opens or creates it. What it holds is read strictly first, as that of a sweep: throws InputError with file
/// and line where it has other columns, another schema or a field that must be a number and is none, and
/// where it cannot be written. Half a line at its end is cut off, which `tell` gets a sentence about.
std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell);

}  // namespace warptune
