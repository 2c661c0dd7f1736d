// Google Benchmark's names and its JSON for winners.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "harness/measure/statistics.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom_export.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

using OrderedJson = nlohmann::ordered_json;

/// The rows of winners, read from the CSVs that they name.
class RecordedRows {
 public:
  explicit RecordedRows(fs::path folder) : folder_(std::move(folder)) {}

  /// nullptr where the row is gone.
  const CsvRow* row(const Winner& winner) { return found(file_of(winner).rows, winner); }
  /// nullptr where the samples are gone.
  const std::vector<double>* samples(const Winner& winner) { return found(file_of(winner).samples, winner); }

 private:
  struct File {
    std::map<std::string, CsvRow> rows;  // by samples_key()
    std::map<std::string, std::vector<double>> samples;
  };

  File& file_of(const Winner& winner) {
    const fs::path csv = folder_ / fs::path(winner.csv).filename();
    const auto [at, is_new] = files_.try_emplace(csv);
    if (is_new && fs::is_regular_file(csv)) {
      for (CsvRow& row : read_sweep(csv))
        if (row.at("status") == "ok") at->second.rows[samples_key(row)] = std::move(row);
      at->second.samples = read_samples(samples_path(csv));
    }
    return at->second;
  }

  template <class Value>
  static const Value* found(const std::map<std::string, Value>& values, const Winner& winner) {
    const auto at = values.find(samples_key({{"run_id", winner.run_id},
                                             {"device", winner.made_on.device},
                                             {"problem", winner.problem.key()},
                                             {"variant", winner.variant},
                                             {"config", winner.config.str()},
                                             {"cache", std::string(name_of(winner.cache))}}));
    return at == values.end() ? nullptr : &at->second;
  }

  const fs::path folder_;
  std::map<fs::path, File> files_;
};

/// A time and what follows from it, in the order of the JSON.
using TimeAndCounters = std::vector<std::pair<std::string, double>>;

TimeAndCounters time_and_counters(double us, const Cost& cost, double floor_us) {
  TimeAndCounters values = {{"real_time", us},
                            {"bytes_per_second", cost.bytes / us * 1e6},
                            {"flops_per_second", cost.flops / us * 1e6}};
  if (floor_us > 0) values.emplace_back("pct_floor", 100 * floor_us / us);
  return values;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double stddev(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += (value - mean(values)) * (value - mean(values));
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double coefficient_of_variation(std::span<const double> values) {
  const double center = mean(values);
  return center == 0 ? 0 : stddev(values) / center;
}

/// Google Benchmark's statistics of repetitions.
struct Statistic {
  const char *name, *unit;
  double (*of)(std::span<const double>);
};
constexpr Statistic kStatistics[] = {{"mean", "time", mean},
                                     {"median", "time", median},
                                     {"stddev", "time", stddev},
                                     {"cv", "percentage", coefficient_of_variation}};

/// The same value of each repetition, summarized.
TimeAndCounters summary(const std::vector<TimeAndCounters>& repetitions, const Statistic& statistic) {
  TimeAndCounters values = repetitions.front();
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> column;
    for (const TimeAndCounters& repetition : repetitions) column.push_back(repetition[i].second);
    values[i].second = statistic.of(column);
  }
  return values;
}

/// The repetitions of one winner and their statistics, as entries of "benchmarks".
class Entries {
 public:
  Entries(OrderedJson& benchmarks, std::string name, std::string label, std::size_t family)
      : benchmarks_(benchmarks), name_(std::move(name)), label_(std::move(label)), family_(family) {}

  void add(const std::vector<TimeAndCounters>& repetitions, std::int64_t launches) {
    for (std::size_t i = 0; i < repetitions.size(); ++i) {
      OrderedJson entry = head("", "iteration", repetitions.size());
      entry["repetition_index"] = i;
      finish(std::move(entry), launches, repetitions[i]);
    }
    if (repetitions.size() < 2) return;
    for (const Statistic& statistic : kStatistics) {
      OrderedJson entry = head(fmt::format("_{}", statistic.name), "aggregate", repetitions.size());
      entry["aggregate_name"] = statistic.name;
      entry["aggregate_unit"] = statistic.unit;
      finish(std::move(entry), static_cast<std::int64_t>(repetitions.size()),
             summary(repetitions, statistic));
    }
  }

 private:
  OrderedJson head(const std::string& suffix, const char* run_type, std::size_t repetitions) const {
    return {{"name", name_ + suffix},
            {"family_index", family_},
            {"per_family_instance_index", 0},
            {"run_name", name_},
            {"run_type", run_type},
            {"repetitions", repetitions},
            {"threads", 1}};
  }

  void finish(OrderedJson entry, std::int64_t iterations, const TimeAndCounters& values) {
    entry["iterations"] = iterations;
    entry["real_time"] = values.front().second;
    entry["cpu_time"] = 0;  // required, and not measured
    entry["time_unit"] = "us";
    for (const auto& [name, value] : std::span(values).subspan(1)) entry[name] = value;
    if (!label_.empty()) entry["label"] = label_;
    benchmarks_.push_back(std::move(entry));
  }

  OrderedJson& benchmarks_;
  const std::string name_, label_;
  const std::size_t family_;
};

std::int64_t whole(const CsvRow& row, const char* column) {
  return std::llround(number_of(row.at(column)).value_or(0));
}

/// "op[a=1,b=x]" as "op/a:1/b:x".
std::string arguments(std::string text) {
  std::erase(text, ']');
  for (char& c : text) {
    if (c == '[' || c == ',') c = '/';
    if (c == '=') c = ':';
  }
  return text;
}

}  // namespace

std::string benchmark_name(const std::string& problem, const std::string& variant,
                           const std::string& config) {
  return arguments(problem) + "/" + variant + (config.empty() ? "" : "/") + arguments(config);
}

std::string benchmark_label(std::string_view cache, const std::string& throttled) {
  const std::string state = cache == "cold" ? "" : std::string(cache);
  if (throttled.empty() || throttled == "none") return state;
  return fmt::format("{}{}throttled: {}", state, state.empty() ? "" : ", ", throttled);
}

std::string to_benchmark_json(const OpTable& ops, const Wisdom& wisdom, const fs::path& folder) {
  RecordedRows recorded(folder);
  std::string newest, host;
  OrderedJson benchmarks = OrderedJson::array();
  std::size_t family = 0;
  for (const Winner& winner : wisdom.winners()) {
    if (winner.made_on.device != wisdom.provenance().device) continue;
    const OpEntry& entry = ops.find(winner.problem.op);
    const Cost cost = entry.op.cost(entry.op.problem(winner.problem.dims, winner.problem.dtype));
    const CsvRow* row = recorded.row(winner);
    const std::vector<double>* samples = recorded.samples(winner);
    if (row && row->at("timestamp_utc") > newest) newest = row->at("timestamp_utc"), host = row->at("host");
    const double floor_us = row ? number_of(row->at("floor_us")).value_or(0) : 0;
    const std::int64_t launches = row ? std::max<std::int64_t>(whole(*row, "launches_per_sample"), 1) : 1;
    const bool has_samples = row && samples && !samples->empty();

    std::vector<TimeAndCounters> repetitions;
    if (has_samples)
      for (const double us : *samples) repetitions.push_back(time_and_counters(us, cost, floor_us));
    else
      repetitions.push_back(time_and_counters(winner.time_us, cost, floor_us));
    const std::int64_t replays = has_samples || !row ? 1 : std::max<std::int64_t>(whole(*row, "samples"), 1);
    // The suffix is Google Benchmark's for times that the benchmark itself takes.
    Entries(benchmarks,
            benchmark_name(winner.problem.key(), winner.variant, winner.config.str()) + "/manual_time",
            benchmark_label(name_of(winner.cache), winner.throttled), family++)
        .add(repetitions, replays * launches);
  }
  const Provenance& p = wisdom.provenance();
  OrderedJson context{{"executable", "warptune wisdom export"},
                      {"json_schema_version", 1},
                      {"device", p.device},
                      {"arch", p.arch},
                      {"driver", p.driver},
                      {"toolkit", p.toolkit},
                      {"git_commit", p.git_commit},
                      {"repetitions", "samples (graph replays) of one run"}};
  if (!newest.empty()) context["date"] = newest, context["host_name"] = host;
  return OrderedJson{{"context", std::move(context)}, {"benchmarks", std::move(benchmarks)}}.dump(
             2, ' ', false, OrderedJson::error_handler_t::replace) +
         "\n";
}

}  // namespace warptune
