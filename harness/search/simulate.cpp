#include "harness/search/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/core/print.h"
#include "harness/core/problem_pattern.h"
#include "harness/core/text_table.h"
#include "harness/results/csv.h"
#include "harness/results/launch_rows.h"
#include "harness/results/sweep_file.h"
#include "harness/search/search_order.h"

namespace warptune {
namespace {

constexpr double kPercents[] = {1, 2, 5, 10, 15, 25, 50};

/// Parses a configuration of the CSV. A label's value is the index of its first appearance.
Assignment config_of(const std::string& text, std::map<std::string, std::vector<std::string>>& labels) {
  Assignment config;
  for (const auto& [name, value] : parse_pairs(text)) {
    if (const auto n = number_of(value)) {
      config.set(name, static_cast<std::int64_t>(*n));
      continue;
    }
    auto& known = labels[name];
    const auto it = std::ranges::find(known, value);
    const auto at = it - known.begin();
    if (it == known.end()) known.push_back(value);
    config.set(name, at, value);
  }
  return config;
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<std::size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

/// "1.02", or "-" if no correct configuration was found so far.
std::string ratio(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-"; }

std::size_t evaluations_at(double percent, std::size_t space) {
  return std::max<std::size_t>(1,
                               static_cast<std::size_t>(percent / 100 * static_cast<double>(space) + 1e-9));
}

}  // namespace

std::vector<RecordedSpace> recorded_spaces(const OpTable& ops, const std::filesystem::path& csv,
                                           const std::string& pattern) {
  const ProblemPattern wanted(pattern);
  std::vector<std::string> order;
  struct Collected {
    RecordedSpace recorded;
    std::map<std::string, std::size_t> at;  // by variant and configuration
    std::map<std::string, std::vector<std::string>> labels;
  };
  std::map<std::string, Collected> problems;
  for (const CsvRow& row : read_sweep(csv)) {
    if (!is_first_row(row)) continue;
    const std::string& problem = row.at("problem");
    if (is_launch_row(row) || !wanted.is_in(ops, problem)) continue;
    const std::string key = problem + (row.at("cache") == "hot" ? " hot" : "");
    if (!problems.contains(key)) order.push_back(key);
    Collected& c = problems[key];
    c.recorded.problem = key;
    SearchCandidate candidate{.variant = row.at("variant"), .config = config_of(row.at("config"), c.labels)};
    candidate.registers = number_of(row.at("registers"));
    candidate.shared_bytes = number_of(row.at("shared_bytes"));
    candidate.spill_bytes = number_of(row.at("spill_bytes"));
    candidate.occupancy_pct = number_of(row.at("occupancy_pct"));
    const double time = row.at("status") == "ok" ? number_of(row.at("time_us")).value_or(INFINITY) : INFINITY;
    if (const auto floor = number_of(row.at("floor_us"))) c.recorded.space.floor_us = *floor;
    const auto [it, fresh] =
        c.at.emplace(row.at("variant") + " " + row.at("config"), c.recorded.times_us.size());
    if (fresh) {
      c.recorded.space.candidates.push_back(std::move(candidate));
      c.recorded.times_us.push_back(time);
    } else {
      c.recorded.times_us[it->second] = time;
    }
  }
  std::vector<RecordedSpace> spaces;
  for (const std::string& key : order) {
    RecordedSpace& recorded = problems[key].recorded;
    recorded.best_us = std::ranges::min(recorded.times_us);
    if (std::isfinite(recorded.best_us)) spaces.push_back(std::move(recorded));
  }
  if (spaces.empty())
    throw InputError(
        fmt::format("'{}' holds no times of a problem that matches '{}'", csv.string(), brief(pattern)));
  return spaces;
}

std::vector<double> convergence(const RecordedSpace& recorded, const std::string& name, std::uint64_t seed,
                                std::size_t evaluations, int ahead) {
  SearchOrder order(recorded.space,
                    {.strategy = name,
                     .budget = {Budget::Unit::evaluations, static_cast<double>(evaluations)},
                     .seed = seed},
                    ahead);
  std::vector<double> found;
  double best = INFINITY;
  while (const auto candidate = order.next()) {
    const double time = recorded.times_us[*candidate];
    order.tell(*candidate, std::isfinite(time) ? std::optional(time) : std::nullopt);
    best = std::min(best, time);
    found.push_back(best / recorded.best_us);
  }
  return found;
}

void simulate(std::vector<RecordedSpace> spaces, const SimulateOptions& options) {
  std::unique_ptr<CsvFile> csv;
  if (!options.csv.empty())
    csv = std::make_unique<CsvFile>(
        options.csv, std::vector<std::string>{"problem", "configurations", "strategy", "seeds", "ahead",
                                              "percent", "evaluations", "median", "p10", "p90"});
  for (RecordedSpace& recorded : spaces) {
    if (!options.resources)
      for (SearchCandidate& c : recorded.space.candidates)
        c.registers = c.shared_bytes = c.spill_bytes = c.occupancy_pct = std::nullopt;
    const std::size_t size = recorded.times_us.size();
    print(options.log, "{}: {} configurations, best {:.3f} us\n", recorded.problem, size, recorded.best_us);
    TextTable table({text_column("  strategy"),
                     {"% of space"},
                     {"evaluations"},
                     {"median/best"},
                     {"p10/best"},
                     {"p90/best"}});
    for (const std::string& name : options.strategies) {
      const std::size_t limit = evaluations_at(options.budget_pct, size);
      std::vector<std::vector<double>> runs(static_cast<std::size_t>(options.seeds));
      const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
      parallel_for(options.seeds, threads, [&](std::int64_t seed) {
        runs[static_cast<std::size_t>(seed)] =
            convergence(recorded, name, static_cast<std::uint64_t>(seed), limit, options.ahead);
      });
      for (const double percent : kPercents) {
        const std::size_t at = evaluations_at(percent, size);
        if (percent > options.budget_pct) break;
        std::vector<double> values;
        for (const auto& run : runs) values.push_back(run[std::min(at, run.size()) - 1]);
        std::ranges::sort(values);
        const double median = quantile(values, 0.5), p10 = quantile(values, 0.1), p90 = quantile(values, 0.9);
        table.add({"  " + name, fmt::format("{}", percent), std::to_string(at), ratio(median), ratio(p10),
                   ratio(p90)});
        if (csv)
          csv->append({recorded.problem, fmt::format("{}", size), name, fmt::format("{}", options.seeds),
                       fmt::format("{}", options.ahead), fmt::format("{}", percent), fmt::format("{}", at),
                       ratio(median), ratio(p10), ratio(p90)});
      }
    }
    print(options.log, table);
    std::fflush(options.log);
  }
}

}  // namespace warptune
