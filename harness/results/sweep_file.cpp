#include "harness/results/sweep_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_row.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTimes[] = {"time_us",     "time_us_min", "time_us_p10",
                                  "time_us_p90", "ci_low_us",   "ci_high_us"};
constexpr const char* kNumbers[] = {
    "samples",     "launches_per_sample", "bytes",        "flops",         "gb_per_s",  "tflop_per_s",
    "floor_us",    "pct_floor",           "max_abs_err",  "rel_l2_err",    "registers", "shared_bytes",
    "spill_bytes", "occupancy_pct",       "sm_clock_mhz", "temperature_c", "power_w",   "compile_ms"};

/// What is wrong with a row; empty where nothing is.
std::string fault_of(const CsvRow& row) {
  if (row.at("schema") != "1")
    return fmt::format("schema '{}'; this program reads schema 1", brief(row.at("schema")));
  const Status status = parse_status(row.at("status"));
  const std::string& cache = row.at("cache");
  if (cache != "cold" && cache != "hot" && cache != "isolated")
    return fmt::format("cache '{}'; it is cold, hot or isolated", brief(cache));
  for (const char* column : kTimes)
    if (const std::string& text = row.at(column); !text.empty() && !(number_of(text).value_or(0) > 0))
      return fmt::format("{} is '{}', which is no time", column, brief(text));
  for (const char* column : kNumbers)
    if (const std::string& text = row.at(column); !text.empty() && !number_of(text))
      return fmt::format("{} is '{}', which is no number", column, brief(text));
  if (status == Status::ok && row.at("time_us").empty()) return "the status is ok, and time_us is empty";
  return {};
}

/// What is wrong with the header; empty where nothing is.
std::string fault_of(const std::vector<std::string>& columns) {
  std::vector<std::string> missing, unknown;
  const auto among = [](const auto& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  };
  std::ranges::copy_if(sweep_columns(), std::back_inserter(missing),
                       [&](const std::string& name) { return !among(columns, name); });
  std::ranges::copy_if(columns, std::back_inserter(unknown),
                       [&](const std::string& name) { return !among(sweep_columns(), name); });
  if (!looks_like_sweep(columns)) return "this is not the CSV of a sweep";
  if (!missing.empty())
    return fmt::format("a sweep's CSV of schema 1 has the column{} {}, which {} missing",
                       missing.size() > 1 ? "s" : "", fmt::join(missing, ", "),
                       missing.size() > 1 ? "are" : "is");
  if (!unknown.empty())
    return fmt::format("a sweep's CSV of schema 1 has no column {}", fmt::join(unknown, ", "));
  return columns.size() == sweep_columns().size() ? "" : "a column stands there twice";
}

}  // namespace

bool looks_like_sweep(const std::vector<std::string>& columns) {
  return std::ranges::all_of(std::array{"problem", "variant", "status", "time_us"}, [&](const char* name) {
    return std::ranges::find(columns, name) != columns.end();
  });
}

std::vector<CsvRow> read_sweep(const fs::path& csv) {
  const auto fail = [&](int line, const std::string& fault) {
    throw InputError(fmt::format("{}:{}: {}", csv.string(), line, fault));
  };
  if (const std::string fault = fault_of(csv_columns(csv)); !fault.empty()) fail(1, fault);
  std::vector<CsvRow> rows;
  for_each_row(csv, [&](int line, CsvRow row) {
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

}  // namespace warptune
