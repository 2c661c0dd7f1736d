#include "harness/search/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/parallel.h"
#include "harness/core/pattern.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/search/search_order.h"

namespace warptune {
namespace {

constexpr double kPercents[] = {1, 2, 5, 10, 15, 25, 50};

/// Parses a configuration of the CSV. A label's value is the index of its first appearance.
Assignment config_of(const std::string& text, std::map<std::string, std::vector<std::string>>& labels) {
  Assignment config;
  for (const auto& [name, value] : parse_pairs(text)) {
    if (const auto n = number_of(value); n && is_exact_integer(*n)) {
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

/// The default tiles of the problem of a row, as the row's columns variant and config; none of a problem or
/// an architecture that this program does not know.
std::vector<std::string> default_tiles_of(const OpTable& ops, const CsvRow& row) try {
  const std::string& key = row.at("problem");
  const auto open = key.find('[');
  if (open == std::string::npos || !key.ends_with(']')) return {};
  auto dims = parse_pairs(std::string_view(key).substr(open + 1, key.size() - open - 2));
  std::erase_if(dims, [](const auto& dim) { return dim.first == "dtype"; });
  const Problem problem = ops.find(key.substr(0, open)).op.problem(dims, parse_dtype(row.at("dtype")));
  std::vector<std::string> tiles;
  for (const DefaultTile& tile : ops.default_tiles(problem, known_device(row.at("arch"))))
    tiles.push_back(tile.variant->name + " " + tile.config.str());
  return tiles;
} catch (const InputError&) {
  return {};
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::lround(q * static_cast<double>(sorted.size() - 1))];
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
    std::vector<std::string> tiles;
  };
  std::map<std::string, Collected> problems;
  for (const CsvRow& row : read_sweep(csv)) {
    if (!is_first_row(row)) continue;
    const std::string& problem = row.at("problem");
    if (is_launch_row(row) || !wanted.is_in(ops, problem)) continue;
    const std::string key = problem + (row.at("cache") == "hot" ? " hot" : "");
    if (!problems.contains(key)) order.push_back(key);
    Collected& c = problems[key];
    if (c.recorded.problem.empty()) c.tiles = default_tiles_of(ops, row);
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
    auto& [recorded, at, labels, tiles] = problems[key];
    for (const std::string& tile : tiles)
      if (const auto it = at.find(tile); it != at.end()) recorded.space.likely.push_back(it->second);
    recorded.best_us = std::ranges::min(recorded.times_us);
    if (std::isfinite(recorded.best_us)) spaces.push_back(std::move(recorded));
  }
  if (spaces.empty())
    throw InputError("'{}' holds no times of a problem that matches '{}'", csv.string(), brief(pattern));
  return spaces;
}

std::vector<double> convergence(const RecordedSpace& recorded, const SearchChoice& choice, int ahead) {
  SearchOrder order(recorded.space, choice, ahead);
  std::vector<double> found;
  double best = INFINITY;
  while (const auto candidate = order.next()) {
    order.propose();
    const double time = recorded.times_us[*candidate];
    order.tell(*candidate, std::isfinite(time) ? std::optional(time) : std::nullopt);
    best = std::min(best, time);
    found.push_back(best / recorded.best_us);
  }
  return found;
}

namespace {

/// The convergence of every seed.
class Runs {
 public:
  Runs(const RecordedSpace& recorded, const std::string& strategy, std::size_t evaluations,
       const SimulateOptions& options)
      : runs_(static_cast<std::size_t>(options.seeds)) {
    const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    parallel_for(options.seeds, threads, [&](std::int64_t seed) {
      runs_[seed] = convergence(recorded,
                                {.strategy = strategy,
                                 .budget = {Budget::Unit::evaluations, static_cast<double>(evaluations)},
                                 .seed = static_cast<std::uint64_t>(seed),
                                 .run = options.run},
                                options.ahead);
    });
  }
  /// What the seeds have found after some evaluations, sorted; infinite where that is nothing.
  std::vector<double> after(std::size_t evaluations) const {
    std::vector<double> values;
    for (const auto& run : runs_)
      values.push_back(run.empty() ? INFINITY : run[std::min(evaluations, run.size()) - 1]);
    std::ranges::sort(values);
    return values;
  }

 private:
  std::vector<std::vector<double>> runs_;
};

std::string text_of(const Budget& budget) {
  return fmt::format("{}{}", budget.amount, budget.unit == Budget::Unit::percent ? " %" : "");
}

/// One row per space and strategy, and the geometric mean of each strategy over the spaces.
void print_budgets(const std::vector<RecordedSpace>& spaces, const SimulateOptions& options) {
  std::vector<TextTable::Column> columns = {
      text_column("space"), {"configurations"}, text_column("strategy")};
  for (const Budget& budget : options.at) columns.push_back({text_of(budget)});
  TextTable table(std::move(columns));
  struct Logs {
    double median = 0, p90 = 0;
  };
  std::vector<std::vector<Logs>> sums(options.strategies.size(), std::vector<Logs>(options.at.size()));
  const auto cell = [](double median, double p90) {
    return fmt::format("{} ({})", ratio(median), ratio(p90));
  };
  for (const RecordedSpace& recorded : spaces)
    for (std::size_t s = 0; s < options.strategies.size(); ++s) {
      const std::size_t size = recorded.times_us.size();
      std::size_t limit = 1;
      for (const Budget& budget : options.at) limit = std::max(limit, budget.evaluations(size));
      const Runs runs(recorded, options.strategies[s], limit, options);
      std::vector<Cell> cells = {recorded.problem, std::to_string(size), options.strategies[s]};
      for (std::size_t b = 0; b < options.at.size(); ++b) {
        const std::vector<double> values = runs.after(options.at[b].evaluations(size));
        const double median = quantile(values, 0.5), p90 = quantile(values, 0.9);
        cells.push_back(cell(median, p90));
        sums[s][b].median += std::log(median);
        sums[s][b].p90 += std::log(p90);
      }
      table.add(std::move(cells));
    }
  const auto mean = [&](double logs) { return std::exp(logs / static_cast<double>(spaces.size())); };
  for (std::size_t s = 0; s < options.strategies.size(); ++s) {
    std::vector<Cell> cells = {"geometric mean", counted(spaces.size(), "space"), options.strategies[s]};
    for (const Logs& sum : sums[s]) cells.push_back(cell(mean(sum.median), mean(sum.p90)));
    table.add(std::move(cells));
  }
  print(options.log, "best time found over the optimum, median (p90) of {} seeds, by evaluations\n",
        options.seeds);
  print(options.log, table);
}

void print_convergence(const std::vector<RecordedSpace>& spaces, const SimulateOptions& options) {
  std::unique_ptr<CsvFile> csv;
  if (!options.csv.empty())
    csv = std::make_unique<CsvFile>(
        options.csv, std::vector<std::string>{"problem", "configurations", "strategy", "seeds", "ahead",
                                              "percent", "evaluations", "median", "p10", "p90"});
  for (const RecordedSpace& recorded : spaces) {
    const std::size_t size = recorded.times_us.size();
    print(options.log, "{}: {} configurations, best {:.3f} us\n", recorded.problem, size, recorded.best_us);
    TextTable table({text_column("  strategy"),
                     {"% of space"},
                     {"evaluations"},
                     {"median/best"},
                     {"p10/best"},
                     {"p90/best"}});
    for (const std::string& name : options.strategies) {
      const Runs runs(recorded, name, evaluations_at(options.budget_pct, size), options);
      for (const double percent : kPercents) {
        const std::size_t at = evaluations_at(percent, size);
        if (percent > options.budget_pct) break;
        const std::vector<double> values = runs.after(at);
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

}  // namespace

void simulate(std::vector<RecordedSpace> spaces, const SimulateOptions& options) {
  if (!options.resources)
    for (RecordedSpace& recorded : spaces)
      for (SearchCandidate& c : recorded.space.candidates)
        c.registers = c.shared_bytes = c.spill_bytes = c.occupancy_pct = std::nullopt;
  options.at.empty() ? print_convergence(spaces, options) : print_budgets(spaces, options);
}

}  // namespace warptune
