#pragma once
// The samples of the rows of a sweep, beside its CSV: OUT/<device>/<sweep>.samples.csv.
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/results/sweep_row.h"

namespace warptune {

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
