#pragma once
// The CSV of decode: one row per run, appended by every run.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/llama/decode_report.h"
#include "harness/results/csv.h"
#include "harness/results/run_info.h"

namespace warptune {

/// The columns, and the fields of a row.
const std::vector<std::string>& decode_columns();
std::vector<std::string> to_row(const DecodeReport& report, const DeviceFacts& facts,
                                const std::string& run_id, const std::string& timestamp,
                                const std::string& git_commit, const std::string& host);

/// The row of a history (results/history.h): the step as a row of op `step`, whose variant is the set of
/// plans.
CsvRow history_row(const DecodeReport& report, const DeviceFacts& facts, const RunInfo& run,
                   const std::string& timestamp);

/// Opens or creates the file. Adds the column `ranks` to one that lacks it. Checks existing rows as strictly
/// as those of a sweep. Throws InputError with file and line for other columns, another schema or a text
/// instead of a number, and if the file cannot be written. Removes an incomplete last line and passes a
/// sentence about it to `tell`.
std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell);

}  // namespace warptune
