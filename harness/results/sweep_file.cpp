#include "harness/results/sweep_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"
#include "harness/core/pattern.h"

namespace warptune {

namespace fs = std::filesystem;
namespace {

/// Whether a number is whole, not negative and exact in a double.
bool is_count(double number) { return number >= 0 && number <= 0x1p53 && number == std::floor(number); }

/// The error in a row, or empty.
std::string fault_of(const CsvRow& row) {
  if (row.at("schema") != "1")
    return fmt::format("schema '{}'; this program reads schema 1", brief(row.at("schema")));
  const Status status = parse_status(row.at("status"));
  if (const std::string& sampling = row.at("sampling"); !sampling.empty()) parse_sampling_class(sampling);
  const std::string& cache = row.at("cache");
  if (cache != "cold" && cache != "hot" && cache != "isolated" && cache != kStepCache)
    return fmt::format("cache '{}'; it is cold, hot, isolated or step", brief(cache));
  for (const Column& column : sweep_table()) {
    const std::string& text = row.at(std::string(column.name));
    if (column.type == ColumnType::text || text.empty()) continue;
    const auto number = number_of(text);
    if (column.type == ColumnType::time && !(number.value_or(0) > 0))
      return fmt::format("{} is '{}', which is not a time", column.name, brief(text));
    if (!number) return fmt::format("{} is '{}', which is not a number", column.name, brief(text));
    if (column.type == ColumnType::whole && !is_count(*number))
      return fmt::format("{} is '{}', which is not a count", column.name, brief(text));
  }
  if (status == Status::ok && row.at("time_us").empty()) return "the status is ok, and time_us is empty";
  return {};
}

/// The error in the header, or empty.
std::string fault_of(const std::vector<std::string>& columns) {
  std::vector<std::string> missing, unknown;
  const auto among = [](const auto& list, const std::string& name) { return contains(list, name); };
  for (const Column& column : sweep_table())
    if (const std::string name(column.name); !column.is_newer && !among(columns, name))
      missing.push_back(name);
  std::ranges::copy_if(columns, std::back_inserter(unknown),
                       [&](const std::string& name) { return !among(sweep_columns(), name); });
  if (!looks_like_sweep(columns)) return "this is not the CSV of a sweep";
  if (!missing.empty())
    return fmt::format("a sweep's CSV of schema 1 has the column{} {}, which {} missing",
                       missing.size() > 1 ? "s" : "", fmt::join(missing, ", "),
                       missing.size() > 1 ? "are" : "is");
  if (!unknown.empty())
    return fmt::format("a sweep's CSV of schema 1 has no column {}", fmt::join(unknown, ", "));
  return std::set(columns.begin(), columns.end()).size() == columns.size() ? "" : "a column occurs twice";
}

}  // namespace

bool looks_like_sweep(const std::vector<std::string>& columns) {
  return std::ranges::all_of(std::array{"problem", "variant", "status", "time_us"},
                             [&](const char* name) { return contains(columns, name); });
}

std::vector<CsvRow> read_sweep(const fs::path& csv) {
  const auto fail = [&](int line, const std::string& fault) {
    throw InputError("{}:{}: {}", csv.string(), line, fault);
  };
  if (const std::string fault = fault_of(csv_columns(csv)); !fault.empty()) fail(1, fault);
  std::vector<CsvRow> rows;
  for_each_row(csv, [&](int line, CsvRow row) {
    for (const std::string& name : sweep_columns())
      row.try_emplace(name);  // adds newer columns that the file lacks
    std::string fault;
    try {
      fault = fault_of(row);
    } catch (const InputError& e) {
      fault = e.what();
    }
    if (!fault.empty()) fail(line, fault);
    rows.push_back(std::move(row));
  });
  return rows;
}

std::string fault_of_sweep_name(const std::string& name) {
  static const Pattern taken(".*\\.([0-9]+|samples|counters)|decode|.*peers.*", "a name");
  if (const std::string fault = fault_of_file_name(name); !fault.empty()) return fault;
  if (taken.matches(name))
    return "it must not end in '.NUMBER', '.samples' or '.counters', hold 'peers' or be 'decode', which name "
           "other files";
  return {};
}

std::vector<double> thinned(std::span<const double> samples, std::size_t max_samples) {
  if (samples.size() <= max_samples || max_samples < 2) return {samples.begin(), samples.end()};
  std::vector<double> kept;
  for (std::size_t i = 0; i < max_samples; ++i)
    kept.push_back(samples[i * (samples.size() - 1) / (max_samples - 1)]);
  return kept;
}

fs::path samples_path(const fs::path& csv) { return fs::path(csv).replace_extension(".samples.csv"); }

const std::vector<std::string>& samples_columns() {
  static const std::vector<std::string> columns = {"run_id", "device", "problem",   "variant",
                                                   "config", "cache",  "samples_us"};
  return columns;
}

std::vector<std::string> samples_fields(const SweepRow& row) {
  std::vector<std::string> texts;
  for (const double us : thinned(row.measurement.samples_us)) texts.push_back(fmt::format("{:.6g}", us));
  return {row.run.run_id,
          row.facts.name,
          row.problem.key(),
          row.variant,
          row.config.str(),
          row.cache,
          fmt::format("{}", fmt::join(texts, " "))};
}

std::string samples_key(const CsvRow& row) {
  std::string key;
  for (const char* column : {"run_id", "device", "problem", "variant", "config", "cache"})
    key += row.at(column) + '\n';
  return key;
}

std::map<std::string, std::vector<double>> read_samples(const fs::path& path) {
  std::map<std::string, std::vector<double>> samples;
  if (!fs::exists(path)) return samples;
  if (csv_columns(path) != samples_columns())
    throw InputError("{}:1: other columns than those of samples", path.string());
  for_each_row(path, [&](int line, const auto& row) {
    std::vector<double>& values = samples[samples_key(row)];
    values.clear();  // a later row of the same run replaces an earlier one
    const std::string& text = row.at("samples_us");
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      double value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc() || !(std::isfinite(value) && value > 0) || (next != end && *next != ' '))
        throw InputError("{}:{}: '{}' are not samples", path.string(), line, brief(text));
      values.push_back(value);
      at = next == end ? end : next + 1;
    }
  });
  return samples;
}

}  // namespace warptune
