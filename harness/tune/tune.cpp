#include "tune/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>

#include "core/error.h"
#include "results/csv.h"
#include "results/samples_file.h"
#include "results/sweep_row.h"
#include "results/wisdom.h"
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

class Tuner {
 public:
  Tuner(const Sweep& sweep, const TuneOptions& options)
      : sweep_(sweep),
        options_(options),
        worker_(options.program, options.device.value_or(sweep.device)),
        compiler_(KernelSources(), default_cache_folder()) {}

  TuneSummary run() {
    const auto start = Clock::now();
    facts_ = worker_.start(kStartSeconds);
    const auto problems = plan_sweep(sweep_, facts_, options_.filter);
    std::size_t total = 0;
    for (const PlannedProblem& p : problems) total += p.candidates.size();
    if (total == 0)
      throw InputError(
          fmt::format("sweep '{}' has no configuration for device '{}'", sweep_.name, facts_.name));

    const fs::path folder = options_.output.value_or(sweep_.output) / facts_.slug();
    summary_.csv = folder / (sweep_.name + ".csv");
    summary_.wisdom = folder / "wisdom.json";
    const auto csv = writable([&] { return std::make_unique<CsvFile>(summary_.csv, sweep_columns()); });
    wisdom_ = writable([&] {
      Wisdom wisdom(Provenance{facts_.name, facts_.arch, facts_.driver, facts_.toolkit, run_.git_commit});
      if (fs::exists(summary_.wisdom)) {
        const Wisdom before = Wisdom::load(summary_.wisdom);
        for (const Winner& winner : before.winners()) wisdom.put(winner);
      }
      wisdom.save(summary_.wisdom);
      return wisdom;
    });
    know_ceilings(folder / "device.json");
    csv_ = csv.get();
    const auto samples =
        writable([&] { return std::make_unique<CsvFile>(samples_path(summary_.csv), samples_columns()); });
    samples_ = samples.get();

    fmt::print(options_.log, "{}: {} configurations of {} problems on {} ({})\n", sweep_.name, total,
               problems.size(), facts_.name, facts_.arch);
    std::fflush(options_.log);
    std::vector<CompileTask> tasks;
    if (searching()) {
      total = 0;
      for (const PlannedProblem& p : problems) total += sweep_.search.budget.evaluations(p.candidates.size());
      fmt::print(options_.log, "strategy {}: at most {} of them\n", sweep_.search.strategy, total);
    }
    for (const PlannedProblem& p : problems)
      for (const Candidate& c : p.candidates)
        if (!searching() && compiled(*c.variant)) tasks.push_back({c.variant, &p.item->problem, &c.config});
    const int lanes = options_.lanes > 0 ? options_.lanes : default_lanes();
    CompileLanes compile(compiler_, facts_, std::move(tasks), lanes, kAhead);
    Progress progress(options_.log, total);
    for (const PlannedProblem& p : problems) solve(p, compile, progress);
    summary_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return std::move(summary_);
  }

 private:
  static bool compiled(const Variant& variant) {
    return variant.backend == Backend::cuda && !variant.stages.empty();
  }

  bool searching() const { return sweep_.search.strategy != "exhaustive" || sweep_.search.budget.amount > 0; }

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
    std::map<std::size_t, Measurement> tried;  // in canonical order
    double best = NAN, best_high = NAN;
    bool first = true;
    for (const Excluded& e : planned.excluded)
      write_row(item, e.candidate, {.status = Status::constraint, .detail = e.constraint});
    const auto attempt = [&](std::size_t index, const CompileResult& built) {
      Measurement m = try_one(item, planned.candidates[index], built, best_high, first);
      write_row(item, planned.candidates[index], m);
      ++summary_.configurations;
      if (m.status == Status::ok) {
        ++summary_.ok;
        best = std::fmin(best, m.time_us);
        best_high = std::fmin(best_high, m.ci_high_us);
      }
      progress.step(key, best);
      return tried.insert_or_assign(index, std::move(m)).first->second;
    };
    if (searching()) {
      SearchOrder order(planned, sweep_.search, compiler_, facts_, kProposals);
      while (const auto proposal = order.next()) {
        const Measurement m = attempt(proposal->candidate, proposal->built);
        order.tell(proposal->candidate, m.status == Status::ok ? std::optional(m.time_us) : std::nullopt);
      }
    } else {
      for (std::size_t i = 0; i < planned.candidates.size(); ++i)
        attempt(i, compiled(*planned.candidates[i].variant) ? compile.take(task_++) : CompileResult{});
    }
    std::vector<Candidate> candidates;
    std::vector<Measurement> measurements;
    for (auto& [index, m] : tried) {
      candidates.push_back(planned.candidates[index]);
      measurements.push_back(std::move(m));
    }
    // One configuration alone has no rival.
    const std::vector<std::size_t> finalists =
        choose_finalists(measurements, planned.candidates.size() > 1 ? item.finalists : 0);
    time_again(item, candidates, finalists, measurements);
    const auto choice = choose_winner(measurements);
    if (!choice) {
      summary_.unsolved.push_back(item.problem);
      if (!candidates.empty()) progress.finish(fmt::format("{}: {}", key, why_none(measurements)));
      return;
    }
    const Candidate& c = candidates[choice->winner];
    const Measurement& m = measurements[choice->winner];
    remember(item, candidates, measurements, *choice);
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

  /// Times the finalists in turn and writes their rows. Their interleaved measurements take the place of
  /// those of the screening, and the others, which are slower, drop out of the choice. Where that fails, the
  /// screening decides.
  void time_again(const SweepItem& item, const std::vector<Candidate>& candidates,
                  const std::vector<std::size_t>& finalists, std::vector<Measurement>& measurements) {
    if (finalists.empty()) return;
    FinalistsJob job{
        .problem = item.problem, .options = item.options, .rounds = kFinalistRounds, .finalists = {}};
    for (const std::size_t i : finalists)
      job.finalists.push_back({candidates[i].variant->name, candidates[i].config});
    std::vector<FinalistTimes> times;
    try {
      times = worker_.run(job, options_.job_seconds * static_cast<double>(finalists.size()) +
                                   (worker_.fresh() ? options_.first_job_seconds : 0));
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      fmt::print(options_.log, "{}: the finalists could not be timed again ({})\n", item.problem.key(),
                 e.what());
      return;
    }
    for (std::size_t i = 0; i < measurements.size(); ++i)
      if (measurements[i].status == Status::ok && std::ranges::find(finalists, i) == finalists.end())
        measurements[i].abandoned = true;
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

  Measurement try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                      double best_us, bool& first) {
    if (built.kind != CompileResult::Kind::ok)
      return {
          .status = built.kind == CompileResult::Kind::resource ? Status::resource : Status::compile_error,
          .detail = built.detail};
    const bool slow = first || worker_.fresh();
    first = false;
    Measurement m;
    try {
      m = worker_.run({item.problem, item.options, candidate.variant->name, candidate.config, best_us},
                      options_.job_seconds + (slow ? options_.first_job_seconds : 0));
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {  // no new worker: the device is gone for now
      m = {.status = Status::crash, .detail = e.what()};
    }
    if (built.resources.registers > 0 && m.resources.registers == 0) m.resources = built.resources;
    m.resources.compile_ms = std::max(m.resources.compile_ms, built.resources.compile_ms);
    return m;
  }

  /// `cache`: what the column says, where it is not the item's.
  void write_row(const SweepItem& item, const Candidate& candidate, const Measurement& m,
                 const char* cache = nullptr) {
    const SweepRow row{.run = run_,
                       .timestamp_utc = timestamp_utc(),
                       .facts = facts_,
                       .problem = item.problem,
                       .variant = candidate.variant->name,
                       .config = candidate.config,
                       .cache = cache                                  ? cache
                                : item.options.cache == CacheMode::hot ? "hot"
                                                                       : "cold",
                       .cost = item.entry->op.cost(item.problem),
                       .measurement = m};
    if (!m.samples_us.empty()) samples_->append(samples_fields(row));  // first: a row has its samples
    csv_->append(fields_of(row));
  }

  /// Where a sweep times a problem cold and hot, the cold winner is the one to keep: a model runs cold.
  bool kept(const SweepItem& item) const {
    return item.options.cache == CacheMode::cold ||
           std::ranges::none_of(sweep_.items, [&](const SweepItem& other) {
             return other.problem == item.problem && other.options.cache == CacheMode::cold;
           });
  }

  void remember(const SweepItem& item, const std::vector<Candidate>& candidates,
                const std::vector<Measurement>& measurements, const Choice& choice) {
    if (!kept(item)) return;
    const Candidate& c = candidates[choice.winner];
    const Measurement& m = measurements[choice.winner];
    Winner winner{.problem = item.problem,
                  .variant = c.variant->name,
                  .config = c.config,
                  .time_us = m.time_us,
                  .source_hash = compiler_.source_hash(*c.variant),
                  .run_id = run_.run_id,
                  .csv = summary_.csv.filename().string()};
    if (choice.throttled) winner.throttled = m.clocks.throttled;
    for (const std::size_t i : choice.tied)
      winner.tied.push_back({candidates[i].variant->name, candidates[i].config, measurements[i].time_us});
    wisdom_.put(std::move(winner));
    wisdom_.save(summary_.wisdom);
  }

  const Sweep& sweep_;
  const TuneOptions& options_;
  WorkerProcess worker_;
  const Compiler compiler_;
  const RunInfo run_ = new_run();
  DeviceFacts facts_;
  Wisdom wisdom_;
  CsvFile *csv_ = nullptr, *samples_ = nullptr;
  std::size_t task_ = 0;  // the next of the compile tasks
  TuneSummary summary_;
};

}  // namespace

TuneSummary tune(const Sweep& sweep, const TuneOptions& options) {
  TuneSummary summary = Tuner(sweep, options).run();
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
             clock_text(summary.seconds), static_cast<double>(summary.configurations) / summary.seconds);
  fmt::print(options.log, "CSV:    {}\nwisdom: {}\n", summary.csv.string(), summary.wisdom.string());
  std::fflush(options.log);
  return summary;
}

void dry_run(const Sweep& sweep, const TuneOptions& options) {
  WorkerProcess worker(options.program, options.device.value_or(sweep.device));
  const DeviceFacts facts = worker.start(kStartSeconds);
  const auto problems = plan_sweep(sweep, facts, options.filter);
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
