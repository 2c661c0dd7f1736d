#include "harness/tune/device_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/measure/tuning_ranges.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom_file.h"
#include "harness/select/tuned_plans.h"
#include "harness/tune/finalists.h"

namespace warptune {
namespace {

/// Whether a failure may be temporary: it does not disqualify an old winner.
bool may_be_temporary(Status status) {
  return status == Status::crash || status == Status::timeout || status == Status::resource ||
         status == Status::launch_error;
}

/// "vectorized block=256,vec=8"
std::string plan_name(const Candidate& c) {
  const Config config = c.config();
  return c.variant->name + (config.empty() ? "" : " ") + config.str();
}

/// The winner's speed, with the best times of naive and library variants.
Speed speed_of(const SweepItem& item, const Trials& trials, const Measurement& m) {
  Speed speed{.time_us = m.time_us, .cost = item.entry->op.cost(item.problem)};
  if (m.floor_us > 0) speed.floor_us = m.floor_us;
  const auto keep_best = [](double& best, double us) { best = best > 0 ? std::min(best, us) : us; };
  for (std::size_t i = 0; i < trials.candidates.size(); ++i) {
    const double us = trials.measurements[i].time_us;
    if (trials.measurements[i].status != Status::ok || !(us > 0)) continue;
    if (is_naive(trials.candidates[i].variant->name)) keep_best(speed.naive_us, us);
    if (calls_library(*trials.candidates[i].variant)) keep_best(speed.vendor_us, us);
  }
  return speed;
}

/// The trials that are timed beside the others and cannot win.
std::vector<std::size_t> peers_among(const Trials& trials, const DeviceFacts& facts) {
  std::vector<std::size_t> peers;
  for (std::size_t i = 0; i < trials.candidates.size(); ++i)
    if (!may_win(*trials.candidates[i].variant, facts)) peers.push_back(i);
  return peers;
}

}  // namespace

DeviceTuner::DeviceTuner(const Sweep& sweep, const TuneOptions& options, DeviceWorker& worker,
                         Schedule schedule, RowStore& store, int compile_jobs)
    : sweep_(sweep),
      options_(options),
      worker_(worker),
      schedule_(std::move(schedule)),
      compiler_(KernelSources(), default_cache_folder()),
      rows_(compiler_, worker.facts(), store, schedule_, options.retry),
      screening_(sweep_, options_, schedule_, compile_with(compiler_, worker.facts()), compile_jobs, worker_,
                 rows_) {
  summary_.csv = store.csv();
  summary_.wisdom = store.csv().parent_path() / "wisdom.json";
  open_wisdom(summary_.wisdom, rows_.provenance());
}

void DeviceTuner::prepare(const std::filesystem::path& device_file) {
  worker_.know_peaks(device_file);
  rows_.begin(schedule_);
}

void DeviceTuner::record_launch_floors() {
  if (worker_.facts().backend == Backend::cuda && !rows_.has_launch_floors())
    rows_.write(worker_.launch_floors());
}

TuneSummary DeviceTuner::run(Progress& progress, const TimeLimit& limit) {
  std::size_t solved = 0;
  for (; solved < schedule_.size() && (solved == 0 || !limit.is_over()); ++solved)
    solve(schedule_[solved], progress);
  summary_.problems_left = schedule_.size() - solved;
  rows_.flush();
  summary_.busy_seconds = worker_.busy_seconds();
  summary_.worker_seconds = worker_.working_seconds();
  return std::move(summary_);
}

void DeviceTuner::solve(const ScheduledProblem& problem, Progress& progress) {
  const SweepItem& item = *problem.item;
  const NvtxRange range = problem_range(item.problem);
  const std::string name = label_of(item.entry->op, item.problem);
  for (const Excluded& e : problem.excluded)
    if (!rows_.known(item, e.candidate))
      rows_.write(item, e.candidate, {.status = Status::constraint, .detail = e.constraint});
  Trials trials = screening_.run(problem, progress, summary_);
  for (const Measurement& m : trials.measurements) trials.first_us.push_back(m.time_us);
  const auto peers = peers_among(trials, worker_.facts());
  // A single configuration needs no comparison.
  const auto finalists =
      choose_finalists(trials.measurements, problem.candidates.size() > 1 ? item.finalists : 0, peers);
  time_finalists(item, finalists, trials, worker_, rows_, options_.log);
  for (const std::size_t i : peers) trials.measurements[i].sampling = SamplingClass::abandoned;
  const auto choice = choose_winner(trials.measurements);
  if (!choice) {
    summary_.unsolved.push_back(item.problem);
    if (!trials.candidates.empty()) progress.finish(fmt::format("{}: {}", name, trials.why_none()));
    return;
  }
  const Candidate& c = trials.candidates[choice->winner];
  const Measurement& m = trials.measurements[choice->winner];
  const auto stays = remember(item, trials, *choice);
  const bool colder = stays && stays->cache == CacheMode::cold && item.options.cache == CacheMode::hot;
  if (colder) ++summary_.kept_cold;
  const std::string floor =
      m.floor_us > 0 ? fmt::format(", {:.0f} % of floor", 100 * m.floor_us / m.time_us) : "";
  const std::string tied = choice->tied.empty() ? "" : fmt::format(" ({} tied with it)", choice->tied.size());
  const std::string slowed = choice->throttled ? fmt::format(" (throttled: {})", m.clocks.throttled) : "";
  const std::string note = stays ? fmt::format("; the wisdom keeps {} {} of {:.2f} us{}", stays->variant,
                                               stays->config.str(), stays->time_us,
                                               colder               ? ", timed cold"
                                               : options_.rerun > 0 ? ""
                                                                    : ", which was not timed here")
                           : item.options.inputs.empty()
                               ? ""
                               : "; no winner of the wisdom: its inputs are changed";
  progress.finish(
      fmt::format("{}: {:.2f} us{}, {}{}{}{}", name, m.time_us, floor, plan_name(c), tied, slowed, note));
  summary_.winners.push_back({item.problem, name, c.variant->name, c.config(), m, speed_of(item, trials, m)});
}

/// The times that choices for other problems need (TunedPlans::likely()): the kMaxTimes fastest and the best
/// of every variant, without those more than kSlowest times slower than the winner. They are the times of the
/// screening: finalists are timed again on a hotter GPU and would look slower than the rest.
std::vector<VariantTimes> DeviceTuner::times_of(const Trials& trials, const OpEntry& op,
                                                double best_us) const {
  constexpr double kSlowest = 4;
  constexpr std::size_t kMaxTimes = 8;  // as good as 32 (docs/choosing.md)
  std::vector<std::size_t> by_time;
  for (std::size_t i = 0; i < trials.candidates.size(); ++i)
    if (trials.measurements[i].status == Status::ok && trials.first_us[i] <= kSlowest * best_us &&
        may_win(*trials.candidates[i].variant, worker_.facts()))
      by_time.push_back(i);
  std::ranges::stable_sort(by_time, {}, [&](std::size_t i) { return trials.first_us[i]; });

  std::vector<std::size_t> kept;
  std::set<const Variant*> variants;
  for (const std::size_t i : by_time)
    if (variants.insert(trials.candidates[i].variant).second || kept.size() < kMaxTimes) kept.push_back(i);
  std::ranges::sort(kept);  // candidates of a variant follow each other

  std::vector<VariantTimes> times;
  for (const std::size_t i : kept) {
    const Variant* variant = trials.candidates[i].variant;
    const Config config = trials.candidates[i].config();
    if (times.empty() || times.back().variant != variant->name) {
      times.push_back({.variant = variant->name, .source_hash = source_hash(compiler_, op, *variant)});
      for (const auto& entry : config) times.back().parameters.push_back(entry.name);
    }
    VariantTimes::Row& row = times.back().rows.emplace_back();
    for (const auto& entry : config) row.values.push_back(entry.value);
    row.time_us = trials.first_us[i];
  }
  return times;
}

/// A sweep that times a problem cold and hot keeps the cold winner: a model runs cold. Times on changed
/// inputs are no winner's: zeros and NaN may take other time and less power.
bool DeviceTuner::kept(const SweepItem& item) const {
  if (!item.options.inputs.empty()) return false;
  return item.options.cache == CacheMode::cold ||
         std::ranges::none_of(sweep_.items, [&](const SweepItem& other) {
           return other.problem == item.problem && other.options.cache == CacheMode::cold;
         });
}

std::optional<Winner> DeviceTuner::remember(const SweepItem& item, const Trials& trials,
                                            const Choice& choice) {
  if (!kept(item)) return std::nullopt;
  const Candidate& c = trials.candidates[choice.winner];
  const Measurement& m = trials.measurements[choice.winner];
  Winner winner{.problem = item.problem,
                .variant = c.variant->name,
                .config = c.config(),
                .time_us = m.time_us,
                .source_hash = source_hash(compiler_, *item.entry, *c.variant),
                .run_id = trials.runs[choice.winner],
                .csv = summary_.csv.filename().string(),
                .cache = item.options.cache};
  winner.code_hash = m.resources.code_hash;
  if (choice.throttled) winner.throttled = m.clocks.throttled;
  for (const std::size_t i : choice.tied)
    winner.tied.push_back(
        {trials.candidates[i].variant->name, trials.candidates[i].config(), trials.measurements[i].time_us});
  winner.times = times_of(trials, *item.entry, m.time_us);
  rows_.flush();  // the row of a winner is written before the winner
  if (options_.rerun > 0) return add_winner(summary_.wisdom, rows_.provenance(), winner);
  const auto tried = [&](const std::string& variant, const Config& config) {
    for (std::size_t i = 0; i < trials.candidates.size(); ++i)
      if (trials.candidates[i].variant->name == variant && trials.candidates[i].config() == config)
        return !may_be_temporary(trials.measurements[i].status);
    return false;
  };
  const Contest contest{.tried = tried, .code = [&](const Winner& old) {
                          return code_now(compiler_, *item.entry, old, worker_.facts());
                        }};
  return put_winner(summary_.wisdom, rows_.provenance(), std::move(winner), contest);
}

}  // namespace warptune
