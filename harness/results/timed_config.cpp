#include "harness/results/timed_config.h"

#include <map>
#include <set>
#include <utility>

#include "harness/results/student_t.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace {

/// Adds a run; another machine code, or the same run again, replaces the runs before it.
void add(std::vector<TimedRun>& runs, const TimedRun& run) {
  if (!runs.empty() && runs.back().code_hash != run.code_hash) runs.clear();
  std::erase_if(runs, [&](const TimedRun& other) { return other.run_id == run.run_id; });
  runs.push_back(run);
}

}  // namespace

bool TimedConfig::decides() const {
  return sampling == SamplingClass::single || sampling == SamplingClass::finalist ||
         sampling == SamplingClass::rerun;
}

std::vector<double> TimedConfig::times_us() const {
  std::vector<double> times;
  for (const TimedRun& run : runs) times.push_back(run.time_us);
  return times;
}

double TimedConfig::time_us() const {
  if (runs.empty()) return Measurement::NAN_VALUE;
  return geometric_mean(faster_half(times_us()));
}

std::string TimedConfig::key() const {
  return device + '\n' + op + '\n' + problem + '\n' + variant + '\n' + config + '\n' + cache;
}

std::vector<TimedConfig> grouped(const std::vector<TimedConfig>& rows) {
  std::vector<TimedConfig> configs;
  std::map<std::pair<std::string, SamplingClass>, std::size_t> index;
  std::map<std::string, const TimedConfig*> failures;  // by key, the last
  for (const TimedConfig& row : rows) {
    if (row.runs.empty()) {
      failures[row.key()] = &row;
      continue;
    }
    const auto [it, is_new] = index.try_emplace({row.key(), row.sampling}, configs.size());
    if (is_new)
      configs.push_back(row);
    else
      for (const TimedRun& run : row.runs) add(configs[it->second].runs, run);
  }
  std::set<std::string> timed;
  for (TimedConfig& config : configs) {
    const auto it = failures.find(*timed.insert(config.key()).first);
    if (it != failures.end()) config.failure = it->second->failure;
  }
  for (const auto& [key, row] : failures)
    if (!timed.contains(key)) configs.push_back(*row);
  return configs;
}

std::vector<TimedConfig> read_timed_configs(const std::filesystem::path& csv) {
  const auto samples = read_samples(samples_path(csv));
  std::vector<TimedConfig> rows;
  for (const CsvRow& row : read_sweep(csv)) {
    if (is_launch_row(row) || (is_step_row(row) && row.at("op") != kStepOp))
      continue;  // a candidate of a step
    TimedConfig& config = rows.emplace_back(TimedConfig{.device = row.at("device"),
                                                        .op = row.at("op"),
                                                        .problem = row.at("problem"),
                                                        .variant = row.at("variant"),
                                                        .config = row.at("config"),
                                                        .cache = row.at("cache"),
                                                        .on_host = row.at("driver").empty(),
                                                        .sampling = sampling_of(row)});
    if (row.at("status") != "ok") {
      config.failure = row.at("status");
      continue;
    }
    TimedRun& run = config.runs.emplace_back(TimedRun{.run_id = row.at("run_id"),
                                                      .time_us = number(row, "time_us"),
                                                      .sm_clock_mhz = number(row, "sm_clock_mhz"),
                                                      .throttled = row.at("throttled"),
                                                      .code_hash = row.at("code_hash")});
    if (const auto it = samples.find(samples_key(row)); it != samples.end()) run.samples = it->second;
  }
  return grouped(rows);
}

}  // namespace warptune
