#pragma once
// The strict reader of sweep CSVs that all commands use.
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/launch_floor.h"
#include "harness/results/csv.h"
#include "harness/results/journal.h"
#include "harness/results/sweep_row.h"

namespace warptune {

/// The error in the name of a sweep, or empty. The name is part of file names, and some names belong to other
/// files.
std::string fault_of_sweep_name(const std::string& name);

/// Whether columns are those of a sweep, in any schema.
bool looks_like_sweep(const std::vector<std::string>& columns);

/// The rows of a sweep. Throws InputError with file and line for another schema or other columns, an unknown
/// status or cache state, a text instead of a number, or an ok row without a time.
std::vector<CsvRow> read_sweep(const std::filesystem::path& csv);

/// Launch floors of the device and decode steps of a model are rows that belong to no configuration.
inline bool is_launch_row(const CsvRow& row) {
  return field(row, "problem").starts_with(std::string(kLaunchOp) + "[");
}

/// The column `cache` of a step.
inline constexpr const char* kStepCache = "step";
/// The variant of the row of a step with the plans that won.
inline constexpr const char* kStepPlans = "plans";

inline bool is_step_row(const CsvRow& row) { return field(row, "cache") == kStepCache; }

constexpr std::size_t kMaxKeptSamples = 64;

/// At most `max_samples` of the samples, evenly spaced in order of measurement, with the first and the last.
std::vector<double> thinned(std::span<const double> samples, std::size_t max_samples = kMaxKeptSamples);

/// "results/x.csv" -> "results/x.samples.csv".
std::filesystem::path samples_path(const std::filesystem::path& csv);
const std::vector<std::string>& samples_columns();
/// The fields of a row's samples, thinned; the last is "12.3 12.4 12.3".
std::vector<std::string> samples_fields(const SweepRow& row);

/// The key of a row in both files.
std::string samples_key(const CsvRow& row);
/// Samples by key; empty if there is no such file.
std::map<std::string, std::vector<double>> read_samples(const std::filesystem::path& path);

}  // namespace warptune
