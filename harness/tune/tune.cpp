#include "harness/tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <thread>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/device/compile.h"
#include "harness/tune/device_lock.h"
#include "harness/tune/device_tuner.h"
#include "harness/tune/locked_clocks.h"
#include "harness/tune/missing.h"
#include "harness/tune/step_tuner.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Turns failures to open an output into bad input: a read-only disk is reported before anything is measured.
template <class F>
auto writable(F&& body) {
  try {
    return body();
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    throw InputError(e.what());
  }
}

/// The tuners of all devices. Devices of one kind share a row store.
struct Fleet {
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  std::vector<DeviceLock> locks;
  std::unique_ptr<LockedClocks> clocks;              // null: not locked
  std::vector<std::unique_ptr<const Sweep>> sweeps;  // what is to be tuned on each kind
  std::vector<std::unique_ptr<RowStore>> stores;
  std::vector<std::unique_ptr<DeviceTuner>> tuners;
  std::vector<DeviceWorker*> first_of_kind;  // the worker of each store that times model steps
  std::size_t max_evaluations = 0;
};

/// Distributes the sweep over the devices of one kind.
void add_kind(Fleet& fleet, const Sweep& whole, const TuneOptions& options,
              const std::vector<DeviceWorker*>& workers, int compile_jobs) {
  const DeviceFacts& kind = workers.front()->facts();
  const Sweep& sweep =
      *fleet.sweeps.emplace_back(std::make_unique<const Sweep>(part_to_tune(whole, kind, options)));
  Schedule schedule = keep_shard(make_schedule(sweep, kind, options.filter), options.shard);
  std::size_t count = 0;
  for (const ScheduledProblem& p : schedule) {
    count += p.candidates.size();
    fleet.max_evaluations += sweep.search.budget.evaluations(p.candidates.size());
  }
  if (count == 0 && options.shard.count == 1 && sweep.steps.empty() && !sweep.missing)
    throw no_configuration(sweep, schedule, kind);
  for (const std::string& sentence : leave_out_too_large(schedule, kind))
    print(options.log, "left out: {}\n", sentence);
  if (options.budget_seconds > 0) sort_by_share(schedule);
  const fs::path folder = options.output.value_or(sweep.output) / kind.slug();
  if (kind.backend == Backend::cuda) Compiler(KernelSources(), default_cache_folder()).make_cache();
  const std::size_t problem_count = schedule.size();
  RowStore& store = *fleet.stores.emplace_back(
      writable([&] { return std::make_unique<RowStore>(folder, sweep.name, options.fresh); }));
  fleet.first_of_kind.push_back(workers.front());
  const std::size_t first = fleet.tuners.size();
  auto parts = distribute(std::move(schedule), static_cast<int>(workers.size()));
  for (std::size_t i = 0; i < workers.size(); ++i) {
    fleet.tuners.push_back(writable([&] {
      return std::make_unique<DeviceTuner>(sweep, options, *workers[i], std::move(parts[i]), store,
                                           compile_jobs);
    }));
    fleet.tuners.back()->prepare(folder / (i == 0 ? "device.json" : fmt::format("device.{}.json", i + 1)));
  }
  fleet.tuners[first]->record_launch_floors();
  if (const std::string note = store.note(); !note.empty())
    print(options.log, "{}\n", one_line("note: " + note));
  if (const std::string note = kind.family_note(); !note.empty()) print(options.log, "note: {}\n", note);
  const std::size_t ranks = workers.front()->ids().size(), devices = workers.size() * ranks;
  print(options.log, "{}: {} configurations of {} problems on {}{} ({}){}\n", sweep.name, count,
        problem_count, devices > 1 ? fmt::format("{} x ", devices) : "", kind.name, kind.arch,
        ranks > 1 ? fmt::format(", {} ranks", ranks) : "");
}

Fleet start_fleet(const Sweep& sweep, const TuneOptions& options) {
  Fleet fleet;
  fleet.workers = start_workers(sweep, options);
  // In one global order, so that two programs cannot deadlock.
  for (const std::string& id : ids_of(fleet.workers)) fleet.locks.emplace_back(id);
  if (options.lock_clocks)
    fleet.clocks = std::make_unique<LockedClocks>(ids_of(fleet.workers), *options.lock_clocks);
  std::map<std::string, std::vector<DeviceWorker*>> kinds;  // by folder
  for (const auto& worker : fleet.workers) kinds[worker->facts().slug()].push_back(worker.get());
  const int all_jobs = compile_jobs(options.compile_jobs);
  const int jobs = std::max(1, all_jobs / static_cast<int>(fleet.workers.size()));
  for (const auto& [slug, members] : kinds) add_kind(fleet, sweep, options, members, jobs);
  return fleet;
}

/// Runs all tuners at once; the first error is thrown after all have ended.
std::vector<TuneSummary> run_all(const Fleet& fleet, Progress& progress, const TimeLimit& limit) {
  std::vector<TuneSummary> summaries(fleet.tuners.size());
  std::vector<std::exception_ptr> errors(fleet.tuners.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < fleet.tuners.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          summaries[i] = fleet.tuners[i]->run(progress, limit);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return summaries;
}

/// After the ops, since their winners are the candidates. A shard has not all of them.
/// The steps share the time that is left.
void tune_steps(const Fleet& fleet, const Sweep& sweep, const TuneOptions& options, const TimeLimit& limit,
                TuneSummary& summary) {
  if (sweep.steps.empty()) return;
  if (options.shard.count > 1) {
    print(options.log, "note: a shard tunes no steps; merge the shards and tune 'steps' alone\n");
    return;
  }
  for (std::size_t kind = 0; kind < fleet.stores.size(); ++kind) {
    StepTuner tuner(*sweep.ops, options, *fleet.first_of_kind[kind], *fleet.stores[kind]);
    std::size_t left = sweep.steps.size() * (fleet.stores.size() - kind);
    for (const StepItem& item : sweep.steps) {
      if (limit.is_over())
        ++summary.steps_left;
      else if (!tuner.run(item, limit.part_of(left)))
        summary.unsolved.push_back(step_problem(item.spec));
      --left;
    }
  }
}

}  // namespace

TuneSummary tune(const Sweep& sweep, const TuneOptions& options) {
  const Stopwatch watch;
  const Fleet fleet = start_fleet(sweep, options);
  // Steps are searched from the winners of their ops, which come first and leave them a part of the budget.
  constexpr double kStepsPart = 0.4;
  const TimeLimit limit(options.budget_seconds),
      ops_limit(options.budget_seconds * (sweep.steps.empty() ? 1 : 1 - kStepsPart));
  if (sweep.search.searching())
    print(options.log, "strategy {}: at most {} evaluations\n", sweep.search.strategy, fleet.max_evaluations);
  std::fflush(options.log);
  Progress progress(options.log, std::max<std::size_t>(fleet.max_evaluations, 1));
  TuneSummary summary = added_up(run_all(fleet, progress, ops_limit));
  tune_steps(fleet, sweep, options, limit, summary);
  summary.seconds = watch.seconds();
  print_summary(options.log, summary, options.verbose);
  report_shared_choices(options.log, summary.shared, sweep.share);
  return summary;
}

}  // namespace warptune
