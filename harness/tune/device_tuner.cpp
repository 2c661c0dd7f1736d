#include "harness/tune/device_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/core/print.h"
#include "harness/measure/tuning_ranges.h"
#include "harness/results/published.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom_file.h"

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

}  // namespace

DeviceTuner::DeviceTuner(const Sweep& sweep, const TuneOptions& options, DeviceWorker& worker,
                         Schedule schedule, RowStore& store, int compile_jobs)
    : sweep_(sweep),
      options_(options),
      worker_(worker),
      schedule_(std::move(schedule)),
      compiler_(KernelSources(), default_cache_folder(), nvrtc_for(options.program, options.compile_seconds)),
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
  const Stopwatch watch;
  std::size_t solved = 0;
  for (; solved < schedule_.size() && (solved == 0 || !limit.is_over()); ++solved)
    solve(schedule_[solved], progress);
  summary_.problems_left = schedule_.size() - solved;
  time_in_fresh_process(progress, limit);
  rows_.flush();
  summary_.busy_seconds = worker_.busy_seconds();
  summary_.worker_seconds = worker_.working_seconds();
  summary_.tuning_seconds = watch.seconds();
  summary_.stages = worker_.stages();
  summary_.stages += screening_.stages();
  summary_.stages[TuningStage::search] += worker_.waiting_seconds();
  return std::move(summary_);
}

void DeviceTuner::solve(const ScheduledProblem& problem, Progress& progress) {
  const SweepItem& item = *problem.item;
  const NvtxRange range = problem_range(item.problem);
  const std::string name = label_of(item.entry->op, item.problem.key());
  for (const Excluded& e : problem.excluded)
    if (!rows_.known(item, e.candidate))
      rows_.write(item, e.candidate, {.status = Status::constraint, .detail = e.constraint});
  Trials trials = screening_.run(problem, progress, summary_);
  // A single configuration needs no comparison.
  const auto finalists =
      choose_finalists(trials.measurements, problem.candidates.size() > 1 ? item.finalists : 0, trials.peers);
  time_finalists(item, finalists, trials, worker_, rows_, options_.log);
  if (!sweep_.share.empty())
    summary_.shared.push_back(
        {summary_.csv, name_of(item.options.cache), item.problem, screened_times(trials)});
  for (const std::size_t i : trials.peers) trials.measurements[i].sampling = SamplingClass::abandoned;
  const auto choice = choose_winner(trials.measurements, item.objective);
  if (choice && lacks_energy(trials.measurements, item.objective) && !std::exchange(said_no_energy_, true))
    print(options_.log, "note: no energy was measured; the time decides\n");
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
  const std::string energy = m.energy_uj > 0 ? fmt::format(", {:.4g} uJ", m.energy_uj) : "";
  const std::string power = m.sustained_power_w > 0 ? fmt::format(" at {:.0f} W", m.sustained_power_w) : "";
  const std::string sustained =
      m.sustained_us > 0 ? fmt::format(", sustained {:.2f} us{}", m.sustained_us, power) : "";
  progress.finish(fmt::format("{}: {:.2f} us{}{}{}, {}{}{}{}", name, m.time_us, floor, energy, sustained,
                              plan_name(c), tied, slowed, note));
  summary_.winners.push_back(winner_of(item, trials, *choice));
  Solved solved{&problem, std::move(trials), *choice, summary_.winners.size() - 1};
  if (needs_fresh_process(solved)) solved_.push_back(std::move(solved));
}

ProblemWinner DeviceTuner::winner_of(const SweepItem& item, const Trials& trials,
                                     const Choice& choice) const {
  const Candidate& c = trials.candidates[choice.winner];
  const Measurement& m = trials.measurements[choice.winner];
  Speed speed = speed_of(item, trials, m);
  speed.published = published_time(worker_.facts().name, item.entry->op, item.problem.key());
  return {item.problem,    label_of(item.entry->op, item.problem.key()), c.variant->name, c.config(), m,
          std::move(speed)};
}

/// Not `rerun`, whose process is fresh, and not a winner that has such a row from an earlier run.
bool DeviceTuner::needs_fresh_process(const Solved& solved) const {
  const SweepItem& item = *solved.problem->item;
  return sweep_.fresh_process && options_.rerun == 0 && item.finalists > 0 &&
         (solved.trials.any_new ||
          !rows_.in_fresh_process(item, solved.trials.candidates[solved.choice.winner]));
}

void DeviceTuner::time_in_fresh_process(Progress& progress, const TimeLimit& limit) {
  if (solved_.empty()) return;
  worker_.renew();
  worker_.begin_problem();  // each job makes inputs and a reference
  std::size_t timed = 0;
  for (; timed < solved_.size() && !limit.is_over(); ++timed) {
    auto& [problem, trials, choice, winner] = solved_[timed];
    const SweepItem& item = *problem->item;
    const std::size_t before = choice.winner;
    if (!warptune::time_in_fresh_process(item, choice, trials, worker_, rows_, options_.log)) continue;
    remember(item, trials, choice);
    summary_.winners[winner] = winner_of(item, trials, choice);
    progress.finish(
        fmt::format("{}: in a fresh process {:.2f} us, {} wins over {}",
                    label_of(item.entry->op, item.problem.key()), trials.measurements[choice.winner].time_us,
                    plan_name(trials.candidates[choice.winner]), plan_name(trials.candidates[before])));
  }
  if (timed < solved_.size())
    print(options_.log,
          "note: {} winners were not timed in a fresh process; the budget of the sweep is spent\n",
          solved_.size() - timed);
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
  winner.times = times_to_record(trials, *item.entry, compiler_, m.time_us);
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
  try {
    return put_winner(summary_.wisdom, rows_.provenance(), std::move(winner), contest);
  } catch (const std::exception&) {
    rows_.flush();  // where the folder is gone, writes the rows anew and says so
    throw;
  }
}

}  // namespace warptune
