#include "tune/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "core/error.h"
#include "results/row_store.h"
#include "results/sweep_row.h"
#include "results/wisdom_file.h"
#include "tune/compile_lanes.h"
#include "tune/device_file.h"
#include "tune/finalists.h"
#include "tune/progress.h"
#include "tune/search_order.h"
#include "tune/worker_process.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kAhead = 64;  // configurations compiled before the worker asks for them
constexpr int kProposals = 4;       // asked of a strategy before the first is measured
constexpr int kFinalistRounds = 21;
constexpr double kStartSeconds = 120;     // for a worker to open its device
constexpr double kCeilingsSeconds = 300;  // for it to measure the ceilings

using Clock = std::chrono::steady_clock;

/// Opens what will be written before anything is measured, so that a full or read-only disk is told at once.
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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool searching(const Sweep& sweep) {
  return sweep.search.strategy != "exhaustive" || sweep.search.budget.amount > 0;
}

/// How many configurations of a problem a sweep tries at most.
std::size_t most_tried(const Sweep& sweep, const PlannedProblem& planned) {
  return searching(sweep) ? sweep.search.budget.evaluations(planned.candidates.size())
                          : planned.candidates.size();
}

/// The configurations of a problem that were tried, in canonical order. All three have one element for each.
struct Trials {
  std::vector<Candidate> candidates;
  std::vector<Measurement> measurements;
  std::vector<std::string> runs;  // ids of the runs that hold their rows
  bool any_new = false;           // not all of them were known
};

/// One worker on one device.
class Tuner {
 public:
  Tuner(const Sweep& sweep, const TuneOptions& options, const std::string& device)
      : sweep_(sweep),
        options_(options),
        worker_(options.program, device),
        compiler_(KernelSources(), default_cache_folder()) {}

  const DeviceFacts& start() {
    facts_ = worker_.start(kStartSeconds);
    return facts_;
  }

  /// What it is to do, where its rows go, and the file of its device's facts.
  void prepare(std::vector<PlannedProblem> problems, const fs::path& device_file, RowStore& rows) {
    problems_ = std::move(problems);
    rows_ = &rows;
    summary_.csv = rows.csv();
    summary_.wisdom = rows.csv().parent_path() / "wisdom.json";
    open_wisdom(summary_.wisdom, provenance());
    know_ceilings(device_file);
    Stamps stamps;
    for (const PlannedProblem& p : problems_) {
      const auto add = [&](const Candidate& c) {
        stamps.try_emplace(stamp_name(p.item->problem.key(), cache_name(*p.item), c.variant->name),
                           stamp(*p.item, *c.variant));
      };
      for (const Candidate& c : p.candidates) add(c);
      for (const Excluded& e : p.excluded) add(e.candidate);
    }
    rows.begin(run_.run_id, stamps);
  }

  TuneSummary run(int lanes, Progress& progress) {
    std::vector<CompileTask> tasks;
    for (const PlannedProblem& p : problems_)
      for (const Candidate& c : p.candidates)
        if (!searching(sweep_) && compiled(*c.variant) && !known(*p.item, c))
          tasks.push_back({c.variant, &p.item->problem, &c.config});
    CompileLanes compile(compiler_, facts_, std::move(tasks), lanes, kAhead);
    for (const PlannedProblem& p : problems_) solve(p, compile, progress);
    if (first_job_) summary_.worker_seconds = seconds_since(*first_job_);
    return std::move(summary_);
  }

 private:
  static bool compiled(const Variant& variant) {
    return variant.backend == Backend::cuda && !variant.stages.empty();
  }

  void know_ceilings(const fs::path& file) {
    if (const auto stored = load_device_file(file, facts_)) {
      worker_.set_ceilings(*stored);
      facts_ = *stored;
    } else {
      facts_ = worker_.measure_ceilings(kCeilingsSeconds);
      writable([&] {
        save_device_file(file, facts_);
        return 0;
      });
    }
  }

  void solve(const PlannedProblem& planned, CompileLanes& compile, Progress& progress) {
    const SweepItem& item = *planned.item;
    const std::string key = item.problem.key();
    for (const Excluded& e : planned.excluded)
      if (!rows_->known(row_key(item, e.candidate)))
        write_row(item, e.candidate, {.status = Status::constraint, .detail = e.constraint});
    Deadline deadline(options_.deadline);
    bool first = true;
    Trials trials = try_all(planned, compile, progress, deadline, first);
    // One configuration alone has no rival.
    const std::vector<std::size_t> finalists =
        choose_finalists(trials.measurements, planned.candidates.size() > 1 ? item.finalists : 0);
    if (!finalists.empty() && (trials.any_new || !recall_finalists(item, finalists, trials)))
      time_again(item, finalists, first, trials);
    const auto choice = choose_winner(trials.measurements);
    if (!choice) {
      summary_.unsolved.push_back(item.problem);
      if (!trials.candidates.empty())
        progress.finish(fmt::format("{}: {}", key, why_none(trials.measurements)));
      return;
    }
    const Candidate& c = trials.candidates[choice->winner];
    const Measurement& m = trials.measurements[choice->winner];
    remember(item, trials, *choice);
    const std::string floor =
        m.floor_us > 0 ? fmt::format(", {:.0f} % of floor", 100 * m.floor_us / m.time_us) : "";
    const std::string tied =
        choice->tied.empty() ? "" : fmt::format(" ({} tied with it)", choice->tied.size());
    const std::string slowed =
        choice->throttled ? fmt::format(" (clocks held down: {})", m.clocks.throttled) : "";
    progress.finish(fmt::format("{}: {:.2f} us{}, {} {}{}{}", key, m.time_us, floor, c.variant->name,
                                c.config.str(), tied, slowed));
    summary_.winners.push_back({item.problem, c.variant->name, c.config, m});
  }

  /// Screening: all configurations, or those that the strategy asks for.
  Trials try_all(const PlannedProblem& planned, CompileLanes& compile, Progress& progress, Deadline& deadline,
                 bool& first) {
    const SweepItem& item = *planned.item;
    struct Tried {
      Measurement measurement;
      std::string run;
    };
    std::map<std::size_t, Tried> tried;  // in canonical order
    Trials trials;
    double best = NAN, best_high = NAN;
    const auto attempt = [&](std::size_t index, const std::function<CompileResult()>& built) {
      const Candidate& c = planned.candidates[index];
      const KnownRow* row = known(item, c);
      Tried now = row ? Tried{row->measurement, row->run_id}
                      : Tried{try_one(item, c, built(), best_high, first, deadline), run_.run_id};
      if (!row) write_row(item, c, now.measurement);
      const Measurement& m = now.measurement;
      trials.any_new |= !row;
      summary_.known += row != nullptr;
      ++summary_.configurations;
      if (m.status == Status::ok) {
        ++summary_.ok;
        best = std::fmin(best, m.time_us);
        best_high = std::fmin(best_high, m.ci_high_us);
      }
      progress.step(item.problem.key(), best);
      return tried.insert_or_assign(index, std::move(now)).first->second.measurement;
    };
    if (searching(sweep_)) {
      SearchOrder order(planned, sweep_.search, compiler_, facts_, kProposals);
      while (const auto proposal = order.next()) {
        const Measurement m = attempt(proposal->candidate, [&] { return proposal->built; });
        order.tell(proposal->candidate, m.status == Status::ok ? std::optional(m.time_us) : std::nullopt);
      }
    } else {
      for (std::size_t i = 0; i < planned.candidates.size(); ++i)
        attempt(i, [&] {
          return compiled(*planned.candidates[i].variant) ? compile.take(task_++, options_.compile_seconds)
                                                          : CompileResult{};
        });
    }
    for (auto& [index, t] : tried) {
      trials.candidates.push_back(planned.candidates[index]);
      trials.measurements.push_back(std::move(t.measurement));
      trials.runs.push_back(std::move(t.run));
    }
    return trials;
  }

  /// Those that are not finalists are slower, and drop out of the choice.
  static void keep_finalists(const std::vector<std::size_t>& finalists,
                             std::vector<Measurement>& measurements) {
    for (std::size_t i = 0; i < measurements.size(); ++i)
      if (measurements[i].status == Status::ok && std::ranges::find(finalists, i) == finalists.end())
        measurements[i].abandoned = true;
  }

  /// Takes the times of the finalists from their rows. False where not all of them have one.
  bool recall_finalists(const SweepItem& item, const std::vector<std::size_t>& finalists,
                        Trials& trials) const {
    std::vector<const KnownRow*> rows;
    for (const std::size_t i : finalists) {
      rows.push_back(rows_->finalist(row_key(item, trials.candidates[i])));
      if (!rows.back()) return false;
    }
    keep_finalists(finalists, trials.measurements);
    for (std::size_t f = 0; f < finalists.size(); ++f) {
      trials.measurements[finalists[f]] = rows[f]->measurement;
      trials.runs[finalists[f]] = rows[f]->run_id;
    }
    return true;
  }

  /// Times the finalists in turn and writes their rows. Their interleaved measurements take the place of
  /// those of the screening, and the others, which are slower, drop out of the choice. Where that fails, the
  /// screening decides.
  void time_again(const SweepItem& item, const std::vector<std::size_t>& finalists, bool first,
                  Trials& trials) {
    if (finalists.empty()) return;
    const std::vector<Candidate>& candidates = trials.candidates;
    std::vector<Measurement>& measurements = trials.measurements;
    FinalistsJob job{
        .problem = item.problem, .options = item.options, .rounds = kFinalistRounds, .finalists = {}};
    for (const std::size_t i : finalists)
      job.finalists.push_back({candidates[i].variant->name, candidates[i].config});
    std::vector<FinalistTimes> times;
    const auto start = Clock::now();
    if (!first_job_) first_job_ = start;
    try {
      times = worker_.run(job, options_.deadline.most_seconds * static_cast<double>(finalists.size()) +
                                   (first || worker_.fresh() ? options_.first_job_seconds : 0));
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      fmt::print(options_.log, "{}: the finalists could not be timed again ({})\n", item.problem.key(),
                 e.what());
      summary_.busy_seconds += seconds_since(start);
      return;
    }
    summary_.busy_seconds += seconds_since(start);
    keep_finalists(finalists, measurements);
    for (std::size_t f = 0; f < finalists.size(); ++f) {
      const Candidate& candidate = candidates[finalists[f]];
      FinalistTimes& t = times[f];
      for (Measurement* m : {&t.main, &t.hot, &t.isolated}) {
        m->resources = measurements[finalists[f]].resources;
        m->detail = m->detail.empty() ? "finalist" : "finalist; " + m->detail;
      }
      write_row(item, candidate, t.main);
      if (item.options.cache == CacheMode::cold) write_row(item, candidate, t.hot, "hot");
      write_row(item, candidate, t.isolated, "isolated");
      measurements[finalists[f]] = t.main;
      trials.runs[finalists[f]] = run_.run_id;
    }
  }

  /// "no configuration is right: 3 wrong_result, 1 timeout (first: ...)"
  static std::string why_none(const std::vector<Measurement>& measurements) {
    std::map<std::string, int> counts;
    for (const Measurement& m : measurements) ++counts[std::string(name_of(m.status))];
    std::vector<std::string> parts;
    for (const auto& [status, n] : counts) parts.push_back(fmt::format("{} {}", n, status));
    std::string first = measurements.front().detail.substr(0, 200);
    std::ranges::replace(first, '\n', ' ');
    return fmt::format("no configuration is right: {} (first: {})", fmt::join(parts, ", "), first);
  }

  static std::string cache_name(const SweepItem& item) {
    return item.options.cache == CacheMode::hot ? "hot" : "cold";
  }

  /// What a row of an earlier run depends on besides what it says itself. Variants without kernels of their
  /// own are part of this program.
  std::string stamp(const SweepItem& item, const Variant& variant) const {
    auto& source = sources_[&variant];
    if (source.empty())
      source = compiled(variant) ? compiler_.source_hash(variant) : run_.git_commit + " program";
    return stamp_of(source, item.options);
  }

  std::string row_key(const SweepItem& item, const Candidate& c) const {
    return key_of({{"device", facts_.name},
                   {"arch", facts_.arch},
                   {"driver", facts_.driver},
                   {"toolkit", facts_.toolkit},
                   {"problem", item.problem.key()},
                   {"variant", c.variant->name},
                   {"config", c.config.str()},
                   {"cache", cache_name(item)}},
                  stamp(item, *c.variant));
  }

  /// The row of an earlier run that tried it, or nullptr.
  const KnownRow* known(const SweepItem& item, const Candidate& c) const {
    const KnownRow* row = rows_->known(row_key(item, c));
    return row && row->measurement.status != Status::constraint ? row : nullptr;
  }

  static Status status_of(CompileResult::Kind kind) {
    switch (kind) {
      case CompileResult::Kind::resource:
        return Status::resource;
      case CompileResult::Kind::timeout:
        return Status::timeout;
      default:
        return Status::compile_error;
    }
  }

  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, bool& first, Deadline& deadline) {
    if (built.kind != CompileResult::Kind::ok)
      return {.status = status_of(built.kind), .detail = built.detail};
    const bool slow = first || worker_.fresh();
    first = false;
    Measurement m;
    const auto start = Clock::now();
    if (!first_job_) first_job_ = start;
    try {
      m = worker_.run({item.problem, item.options, candidate.variant->name, candidate.config, best_us},
                      deadline.seconds() + (slow ? options_.first_job_seconds : 0));
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {  // no new worker: the device is gone for now
      m = {.status = Status::crash, .detail = e.what()};
    }
    summary_.busy_seconds += seconds_since(start);
    if (!slow) deadline.learn(m, seconds_since(start));
    if (built.resources.registers > 0 && m.resources.registers == 0) m.resources = built.resources;
    m.resources.compile_ms = std::max(m.resources.compile_ms, built.resources.compile_ms);
    return m;
  }

  /// `cache`: what the column says, where it is not the item's.
  void write_row(const SweepItem& item, const Candidate& candidate, const Measurement& m,
                 const char* cache = nullptr) {
    rows_->append({.run = run_,
                   .timestamp_utc = timestamp_utc(),
                   .facts = facts_,
                   .problem = item.problem,
                   .variant = candidate.variant->name,
                   .config = candidate.config,
                   .cache = cache ? cache : cache_name(item),
                   .cost = item.entry->op.cost(item.problem),
                   .measurement = m});
  }

  /// Where a sweep times a problem cold and hot, the cold winner is the one to keep: a model runs cold.
  bool kept(const SweepItem& item) const {
    return item.options.cache == CacheMode::cold ||
           std::ranges::none_of(sweep_.items, [&](const SweepItem& other) {
             return other.problem == item.problem && other.options.cache == CacheMode::cold;
           });
  }

  Provenance provenance() const {
    return {facts_.name, facts_.arch, facts_.driver, facts_.toolkit, run_.git_commit};
  }

  void remember(const SweepItem& item, const Trials& trials, const Choice& choice) {
    if (!kept(item)) return;
    const Candidate& c = trials.candidates[choice.winner];
    const Measurement& m = trials.measurements[choice.winner];
    Winner winner{.problem = item.problem,
                  .variant = c.variant->name,
                  .config = c.config,
                  .time_us = m.time_us,
                  .source_hash = compiler_.source_hash(*c.variant),
                  .run_id = trials.runs[choice.winner],
                  .csv = summary_.csv.filename().string()};
    if (choice.throttled) winner.throttled = m.clocks.throttled;
    for (const std::size_t i : choice.tied)
      winner.tied.push_back(
          {trials.candidates[i].variant->name, trials.candidates[i].config, trials.measurements[i].time_us});
    put_winner(summary_.wisdom, provenance(), winner);
  }

  const Sweep& sweep_;
  const TuneOptions& options_;
  WorkerProcess worker_;
  const Compiler compiler_;
  const RunInfo run_ = new_run();
  DeviceFacts facts_;
  std::vector<PlannedProblem> problems_;
  RowStore* rows_ = nullptr;
  mutable std::map<const Variant*, std::string> sources_;  // hashes
  std::optional<Clock::time_point> first_job_;
  std::size_t task_ = 0;  // the next of the compile tasks
  TuneSummary summary_;
};

/// A tuner for each device, started. `all`: every GPU, or the host where there is none.
std::vector<std::unique_ptr<Tuner>> start_tuners(const Sweep& sweep, const TuneOptions& options,
                                                 std::vector<DeviceFacts>& facts) {
  std::vector<std::unique_ptr<Tuner>> tuners;
  const auto add = [&](const std::string& device) {
    auto tuner = std::make_unique<Tuner>(sweep, options, device);
    facts.push_back(tuner->start());
    tuners.push_back(std::move(tuner));
  };
  const std::string given = options.device.value_or(sweep.device);
  if (given != "all") {
    for (const std::string& device : split_devices(given)) add(device);
    return tuners;
  }
  try {
    for (int i = 0;; ++i) add(fmt::format("cuda:{}", i));
  } catch (const InputError&) {  // no further GPU
  }
  if (tuners.empty()) add("host");
  return tuners;
}

/// Runs all tuners at once; the first error is thrown after all have ended.
std::vector<TuneSummary> run_all(const std::vector<std::unique_ptr<Tuner>>& tuners, int lanes,
                                 Progress& progress) {
  std::vector<TuneSummary> summaries(tuners.size());
  std::vector<std::exception_ptr> errors(tuners.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < tuners.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          summaries[i] = tuners[i]->run(lanes, progress);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return summaries;
}

TuneSummary added_up(std::vector<TuneSummary> parts) {
  TuneSummary sum = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    sum.configurations += parts[i].configurations;
    sum.ok += parts[i].ok;
    sum.known += parts[i].known;
    sum.busy_seconds += parts[i].busy_seconds;
    sum.worker_seconds += parts[i].worker_seconds;
    std::ranges::move(parts[i].winners, std::back_inserter(sum.winners));
    std::ranges::move(parts[i].unsolved, std::back_inserter(sum.unsolved));
  }
  return sum;
}

/// Devices of one kind share the problems, the CSV and the wisdom; each kind does the whole sweep.
TuneSummary tune_devices(const Sweep& sweep, const TuneOptions& options) {
  const auto start = Clock::now();
  std::vector<DeviceFacts> facts;
  const auto tuners = start_tuners(sweep, options, facts);
  std::map<std::string, std::vector<std::size_t>> kinds;  // by folder
  for (std::size_t i = 0; i < facts.size(); ++i) kinds[facts[i].slug()].push_back(i);

  std::vector<std::unique_ptr<RowStore>> stores;
  std::size_t total = 0;
  for (const auto& [slug, members] : kinds) {
    const DeviceFacts& kind = facts[members.front()];
    auto problems = keep_shard(plan_sweep(sweep, kind, options.filter), options.shard);
    std::size_t count = 0;
    for (const PlannedProblem& p : problems) count += p.candidates.size();
    if (count == 0 && options.shard.count == 1)
      throw InputError(fmt::format("sweep '{}' has no configuration for device '{}'", sweep.name, kind.name));
    for (const PlannedProblem& p : problems) total += most_tried(sweep, p);
    const fs::path folder = options.output.value_or(sweep.output) / slug;
    writable([&] {
      stores.push_back(std::make_unique<RowStore>(folder, sweep.name, options.fresh));
      const std::size_t problem_count = problems.size();
      auto shares = deal(std::move(problems), static_cast<int>(members.size()));
      for (std::size_t i = 0; i < members.size(); ++i)
        tuners[members[i]]->prepare(std::move(shares[i]),
                                    folder / (i == 0 ? "device.json" : fmt::format("device.{}.json", i + 1)),
                                    *stores.back());
      if (const std::string note = stores.back()->note(); !note.empty())
        fmt::print(options.log, "note: {}\n", note);
      fmt::print(options.log, "{}: {} configurations of {} problems on {}{} ({})\n", sweep.name, count,
                 problem_count, members.size() > 1 ? fmt::format("{} x ", members.size()) : "", kind.name,
                 kind.arch);
      return 0;
    });
  }
  if (searching(sweep))
    fmt::print(options.log, "strategy {}: at most {} of them\n", sweep.search.strategy, total);
  std::fflush(options.log);
  const int lanes = options.lanes > 0 ? options.lanes : default_lanes();
  Progress progress(options.log, std::max<std::size_t>(total, 1));
  TuneSummary summary =
      added_up(run_all(tuners, std::max(1, lanes / static_cast<int>(tuners.size())), progress));
  summary.seconds = seconds_since(start);
  return summary;
}

}  // namespace

TuneSummary tune(const Sweep& sweep, const TuneOptions& options) {
  TuneSummary summary = tune_devices(sweep, options);
  std::size_t widest = 7;
  for (const ProblemWinner& w : summary.winners) widest = std::max(widest, w.problem.key().size());
  fmt::print(options.log, "\n{:<{}}  {:>10}  {:>7}  winner\n", "problem", widest, "time us", "% floor");
  for (const ProblemWinner& w : summary.winners) {
    const Measurement& m = w.measurement;
    const bool slowed = !m.clocks.throttled.empty() && m.clocks.throttled != "none";
    fmt::print(options.log, "{:<{}}  {:>10.3f}  {:>7}  {} {}{}\n", w.problem.key(), widest, m.time_us,
               m.floor_us > 0 ? fmt::format("{:.1f}", 100 * m.floor_us / m.time_us) : "", w.variant,
               w.config.str(), slowed ? fmt::format("  (clocks held down: {})", m.clocks.throttled) : "");
  }
  for (const Problem& p : summary.unsolved) fmt::print(options.log, "{:<{}}  no winner\n", p.key(), widest);
  fmt::print(options.log, "\n{} configurations, {} ok, {} failed, {} ({:.1f} a second)\n",
             summary.configurations, summary.ok, summary.configurations - summary.ok,
             clock_text(summary.seconds),
             static_cast<double>(summary.configurations - summary.known) / summary.seconds);
  if (summary.known > 0)
    fmt::print(options.log, "{} of them were known from an earlier run (--fresh measures them again)\n",
               summary.known);
  if (summary.worker_seconds > 0)
    fmt::print(options.log, "the workers were measuring {:.0f} % of the time since their first jobs\n",
               100 * summary.busy_seconds / summary.worker_seconds);
  fmt::print(options.log, "CSV:    {}\nwisdom: {}\n", summary.csv.string(), summary.wisdom.string());
  std::fflush(options.log);
  return summary;
}

void dry_run(const Sweep& sweep, const TuneOptions& options) {
  std::vector<DeviceFacts> all_facts;
  const auto tuners = start_tuners(sweep, options, all_facts);
  const DeviceFacts& facts = all_facts.front();
  const auto problems = keep_shard(plan_sweep(sweep, facts, options.filter), options.shard);
  struct Counts {
    std::int64_t before = 0, after = 0, tried = 0;
    void add(const SpaceCount& c) {
      before += c.before;
      after += c.after;
      tried += c.tried;
    }
  };
  const auto line = [&](const auto& c, const std::string& text) {
    fmt::print(options.log, "{:>10}  {:>10}  {:>10}  {}\n", c.before, c.after, c.tried, text);
  };
  fmt::print(options.log, "{:>10}  {:>10}  {:>10}  op/variant, problem\n", "before", "after", "tried");
  std::vector<std::string> order;
  std::map<std::string, Counts> variants;
  Counts total;
  for (const PlannedProblem& p : problems)
    for (const SpaceCount& count : p.counts) {
      const std::string name = p.item->entry->op.name + "/" + count.variant->name;
      line(count, name + " " + p.item->problem.key());
      if (!variants.contains(name)) order.push_back(name);
      variants[name].add(count);
      total.add(count);
    }
  fmt::print(options.log, "\n{:>10}  {:>10}  {:>10}  op/variant, all problems\n", "before", "after", "tried");
  for (const std::string& name : order) line(variants[name], name);
  std::size_t budget = 0;
  for (const PlannedProblem& p : problems) budget += sweep.search.budget.evaluations(p.candidates.size());
  line(total, fmt::format("total of {} problems on {} ({})", problems.size(), facts.name, facts.arch));
  const bool timed = sweep.search.budget.unit == Budget::Unit::seconds;
  fmt::print(options.log, "\nstrategy {}: at most {} evaluations{}\n", sweep.search.strategy, budget,
             timed ? fmt::format(", {:g} s per problem", sweep.search.budget.amount) : "");
}

}  // namespace warptune
