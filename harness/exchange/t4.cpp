// Rows of a sweep in T4.

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/core/assignment.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/pattern.h"
#include "harness/exchange/recorded_json.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"

namespace warptune {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kMsPerUs = 1e-3;

/// What T4 calls the reason of a failure.
std::string invalidity_of(const std::string& status) {
  static const std::map<std::string, std::string> known = {{"ok", "correct"},
                                                           {"constraint", "constraints"},
                                                           {"compile_error", "compile"},
                                                           {"wrong_result", "correctness"},
                                                           {"timeout", "timeout"}};
  const auto it = known.find(status);
  return it == known.end() ? "runtime" : it->second;
}

OrderedJson configuration_of(const CsvRow& row) {
  OrderedJson config = {{"variant", row.at("variant")}};
  for (const auto& [name, value] : parse_pairs(row.at("config"))) {
    const bool whole = !value.empty() && value.find_first_not_of("-0123456789") == std::string::npos;
    config[name] = whole ? OrderedJson(std::stoll(value)) : OrderedJson(value);
  }
  return config;
}

OrderedJson measurements_of(const CsvRow& row) {
  struct Measured {
    const char *column, *name, *unit;
    double scale;
  };
  static constexpr Measured kMeasured[] = {{"time_us", "time", "ms", kMsPerUs},
                                           {"time_us_p10", "time_p10", "ms", kMsPerUs},
                                           {"time_us_p90", "time_p90", "ms", kMsPerUs},
                                           {"gb_per_s", "bandwidth", "GB/s", 1},
                                           {"tflop_per_s", "performance", "TFLOP/s", 1},
                                           {"registers", "registers", "", 1},
                                           {"shared_bytes", "shared_memory", "bytes", 1},
                                           {"occupancy_pct", "occupancy", "%", 1},
                                           {"power_w", "power", "W", 1}};
  OrderedJson list = OrderedJson::array();
  for (const Measured& m : kMeasured)
    if (const auto value = number_of(row.at(m.column)))
      list.push_back({{"name", m.name}, {"value", *value * m.scale}, {"unit", m.unit}});
  return list;
}

OrderedJson result_of(const CsvRow& row, const std::map<std::string, std::vector<double>>& samples) {
  OrderedJson runtimes = OrderedJson::array();
  if (const auto it = samples.find(samples_key(row)); it != samples.end())
    for (const double us : it->second) runtimes.push_back(us * kMsPerUs);
  const bool correct = row.at("status") == "ok";
  return {{"timestamp", row.at("timestamp_utc")},
          {"configuration", configuration_of(row)},
          {"objectives", {"time"}},
          {"times",
           {{"compilation_time", number_of(row.at("compile_ms")).value_or(0)},
            {"runtimes", runtimes},
            {"framework", 0},
            {"search_algorithm", 0},
            {"validation", 0}}},
          {"invalidity", invalidity_of(row.at("status"))},
          {"correctness", correct ? 1 : 0},
          {"measurements", measurements_of(row)}};
}

}  // namespace

std::string to_t4(const OpTable& ops, const std::filesystem::path& csv, const std::string& pattern) {
  const ProblemPattern wanted(pattern);
  std::vector<CsvRow> rows;
  std::vector<std::string> problems;
  std::map<std::string, std::size_t> at;  // by variant and configuration
  for (CsvRow& row : read_sweep(csv)) {
    const std::string problem = row.at("problem") + (row.at("cache") == "hot" ? " hot" : "");
    if (!is_first_row(row) || is_launch_row(row) || !wanted.is_in(ops, problem)) continue;
    if (!contains(problems, problem)) problems.push_back(problem);
    const auto [it, is_new] = at.emplace(row.at("variant") + " " + row.at("config"), rows.size());
    if (is_new)
      rows.push_back(std::move(row));
    else
      rows[it->second] = std::move(row);
  }
  if (problems.empty())
    throw InputError("'{}' has no problem that matches '{}'", csv.string(), brief(pattern));
  if (problems.size() > 1)
    throw InputError("a T4 file has one problem and {} match; choose one with --problem, such as '{}'",
                     problems.size(), problems.front());
  const auto samples = read_samples(samples_path(csv));
  OrderedJson results = OrderedJson::array();
  for (const CsvRow& row : rows) results.push_back(result_of(row, samples));
  const OrderedJson file = {{"schema_version", "1.0.0"},
                            {"metadata",
                             {{"problem", problems.front()},
                              {"hardware", {{"operating_system", "Linux"}}},
                              {"environment",
                               {{"device_query",
                                 {{"name", rows.front().at("device")},
                                  {"arch", rows.front().at("arch")},
                                  {"driver", rows.front().at("driver")},
                                  {"toolkit", rows.front().at("toolkit")}}}}}}},
                            {"results", results}};
  return file.dump(1) + "\n";
}

}  // namespace warptune
