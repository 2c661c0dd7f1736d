// `tune --dry-run`: the size of a sweep and an estimate of its time, without a measurement.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/device/compile.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/missing.h"
#include "harness/tune/progress.h"
#include "harness/tune/schedule.h"
#include "harness/tune/tune.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

// Without recorded rows the estimate assumes these seconds per configuration.
constexpr double kCompileSeconds = 0.8;      // NVRTC, one thread
constexpr double kMeasureSeconds = 0.05;     // verification and timing on a GPU
constexpr double kHostMeasureSeconds = 0.5;  // the same on the host
constexpr double kStepSeconds = 20;          // the search of a model step
constexpr std::size_t kMinRowsForRate = 20;  // an estimate of the rate needs
constexpr double kLongestPause = 10 * 60;    // seconds between rows that belong to one session

void add(SpaceCount& sum, const SpaceCount& count) {
  sum.all += count.all;
  sum.legal += count.legal;
  sum.planned += count.planned;
}

std::vector<Cell> cells_of(const SpaceCount& counts, const std::string& variant, const std::string& problem) {
  return {std::to_string(counts.all), std::to_string(counts.legal), std::to_string(counts.planned), variant,
          problem};
}

/// Seconds since 1970 of "2026-01-02T03:04:05Z", or -1.
double seconds_of(const std::string& timestamp) {
  std::tm time{};
  return ::strptime(timestamp.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time) ? static_cast<double>(::timegm(&time))
                                                                    : -1;
}

/// Wall-clock seconds per configuration of the recorded rows of a sweep; 0 where they are too few. The
/// candidates of a step are no configurations.
double recorded_rate(const fs::path& csv) {
  if (!fs::exists(csv)) return 0;
  double spent = 0, last = -1;
  std::size_t rows = 0;
  std::string run;
  for (const CsvRow& row : read_sweep(csv)) {
    if (is_step_row(row)) continue;
    const double now = seconds_of(row.at("timestamp_utc"));
    if (row.at("run_id") == run && now >= last && now - last < kLongestPause) {
      spent += now - last;
      ++rows;
    }
    run = row.at("run_id");
    last = now;
  }
  return rows >= kMinRowsForRate ? spent / static_cast<double>(rows) : 0;
}

struct Estimate {
  double seconds;
  std::string basis;
};

/// The time of the evaluations without a time budget.
Estimate evaluation_time(std::size_t evaluations, const Schedule& schedule, const DeviceFacts& facts,
                         const TuneOptions& options, const fs::path& csv) {
  const double count = static_cast<double>(evaluations);
  if (const double rate = recorded_rate(csv); rate > 0)
    return {count * rate,
            fmt::format("at {:.3g} s per configuration, as recorded in {}", rate, csv.string())};
  if (facts.backend == Backend::host)
    return {count * kHostMeasureSeconds,
            fmt::format("assumes {:g} s to verify and time a configuration", kHostMeasureSeconds)};
  std::size_t compiled = 0, all = 0;
  for (const ScheduledProblem& p : schedule)
    for (const Candidate& c : p.candidates) {
      ++all;
      compiled += is_compiled(*c.variant);
    }
  const int jobs = compile_jobs(options.compile_jobs);
  const double share = all > 0 ? static_cast<double>(compiled) / static_cast<double>(all) : 0;
  return {
      std::max(count * share * kCompileSeconds / jobs, count * kMeasureSeconds),
      fmt::format("assumes {:g} s to compile a configuration, {} (--jobs), and at the same time {:g} s to "
                  "verify and time one",
                  kCompileSeconds, counted(static_cast<std::size_t>(jobs), "compile job"), kMeasureSeconds)};
}

/// "about 02:30 (...)", with what it assumes.
std::string estimate(std::size_t evaluations, const Schedule& schedule, const Sweep& sweep,
                     const DeviceFacts& facts, const TuneOptions& options, const fs::path& csv) {
  Estimate total = evaluation_time(evaluations, schedule, facts, options, csv);
  if (sweep.search.budget.unit == Budget::Unit::seconds) {
    const double amount = sweep.search.budget.amount, budget = amount * static_cast<double>(schedule.size());
    if (budget < total.seconds) total = {budget, fmt::format("{:g} s per problem", amount)};
  }
  if (!sweep.steps.empty()) {
    total.seconds += kStepSeconds * static_cast<double>(sweep.steps.size());
    total.basis += fmt::format(", {:g} s per model step", kStepSeconds);
  }
  return fmt::format("about {} ({})", clock_text(total.seconds), total.basis);
}

/// The toolkit of a device that is not present is that of this program, which would compile the kernels.
DeviceFacts facts_for(const Sweep& sweep, const TuneOptions& options) {
  if (options.arch.empty()) return start_workers(sweep, options).front()->facts();
  DeviceFacts facts = known_device(options.arch);
  facts.toolkit = Compiler::toolkit();
  return facts;
}

TextTable table_of(const std::string& problem_heading) {
  return TextTable(
      {{"all"}, {"legal"}, {"planned"}, text_column("op/variant"), text_column(problem_heading)});
}

}  // namespace

void dry_run(const Sweep& whole, const TuneOptions& options) {
  const DeviceFacts facts = facts_for(whole, options);
  const Sweep sweep = part_to_tune(whole, facts, options);
  const Schedule schedule = keep_shard(make_schedule(sweep, facts, options.filter), options.shard);
  TextTable spaces = table_of("problem"), variants = table_of("");
  std::vector<std::string> order;
  std::map<std::string, SpaceCount> by_variant;
  SpaceCount total;
  std::size_t evaluations = 0;
  for (const ScheduledProblem& p : schedule) {
    evaluations += sweep.search.budget.evaluations(p.candidates.size());
    for (const SpaceCount& count : p.counts) {
      const std::string name = p.item->entry->op.name + "/" + count.variant->name;
      spaces.add(cells_of(count, name, label_of(p.item->entry->op, p.item->problem)));
      if (!by_variant.contains(name)) order.push_back(name);
      add(by_variant[name], count);
      add(total, count);
    }
  }
  if (total.planned == 0 && options.shard.count == 1 && sweep.steps.empty() && !sweep.missing)
    throw no_configuration(sweep, schedule, facts);
  for (const ScheduledProblem& p : schedule)
    if (p.candidates.empty() && !p.why_none.empty() && options.shard.count == 1)
      print_note("a problem has no configuration: {}", p.why_none);
  for (const std::string& name : order) variants.add(cells_of(by_variant[name], name, ""));
  variants.add(cells_of(
      total, fmt::format("total of {} problems on {} ({})", schedule.size(), facts.name, facts.arch), ""));
  print(options.log, "configurations (all; legal: within the constraints; planned: tried at most)\n");
  print(options.log, spaces);
  print(options.log, "\n");
  print(options.log, variants);

  const bool timed = sweep.search.budget.unit == Budget::Unit::seconds;
  print(options.log, "\nstrategy {}: at most {} evaluations{}\n", sweep.search.strategy, evaluations,
        timed ? fmt::format(", {:g} s per problem", sweep.search.budget.amount) : "");
  if (!sweep.steps.empty())
    print(options.log, "{}: up to {} plans of each problem, exchanged in the captured step\n",
          counted(sweep.steps.size(), "model step"), sweep.steps.front().candidates);
  const fs::path csv = options.output.value_or(sweep.output) / facts.slug() / (sweep.name + ".csv");
  const std::string time = "estimated time: " + estimate(evaluations, schedule, sweep, facts, options, csv);
  for (const std::string& line : wrapped(time, TextTable::kWidth)) print(options.log, "{}\n", line);
}

}  // namespace warptune
