#include "harness/tune/step_tuner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/parallel.h"
#include "harness/core/print.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/fusion.h"
#include "harness/llama/memory_need.h"
#include "harness/results/source_hash.h"
#include "harness/results/sweep_file.h"
#include "harness/results/wisdom_file.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/progress.h"
#include "harness/tune/step_candidates.h"

namespace warptune {
namespace {

constexpr int kStepRounds = 21, kFinalRounds = 61;  // replays of each of two steps

// The variants of rows of the step itself, beside kStepPlans: with the winners of its ops alone, with the
// plans of the nearest recorded step, and with another option.
constexpr const char *kAlone = "alone", *kRecorded = "recorded", *kOptions = "options";

bool is_timed(const Measurement& m) { return m.status == Status::ok && m.time_us > 0; }

StepTrial trial_of(const StepTimes& times) {
  const auto& [ratio, low, high] = times.ratio;
  return {.ok = is_timed(times.candidate), .ratio = ratio, .low = low, .high = high};
}

/// Times steps on the worker and writes the row of each candidate.
class WorkerTimer : public StepTimer {
 public:
  WorkerTimer(const OpTable& ops, const StepItem& item, const std::vector<SearchedPart>& parts,
              DeviceWorker& worker, RowStore& store, const std::string& stamp, const TimeLimit& limit)
      : ops_(ops),
        item_(item),
        parts_(parts),
        worker_(worker),
        store_(store),
        limit_(limit),
        step_(step_problem(item.spec)) {
    Stamps stamps;
    for (const char* variant : {kAlone, kRecorded, kOptions, kStepPlans})
      stamps[stamp_name(step_.key(), kStepCache, variant)] = stamp;
    for (const SearchedPart& part : parts)
      for (const StepPlan& plan : part.plans)
        stamps[stamp_name(plan.problem.key(), kStepCache, plan.variant)] = stamp;
    store_.begin(run_.run_id, stamps);
  }

  /// Times the step that the search begins with. Empty where it fails.
  std::optional<Measurement> start(const Picks& picks) {
    const StepPlans alone = assembled(parts_, picks);
    const StepTimes times = measure(alone, alone, kStepRounds);
    problems_[options_of(picks)] = {times.problems.begin(), times.problems.end()};
    write(step_, kAlone, alone.options, times.candidate);
    return is_timed(times.candidate) ? std::optional(times.candidate) : std::nullopt;
  }

  StepTrial time(const Picks& incumbent, const Picks& candidate) override {
    const StepTimes times = compare(incumbent, candidate);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (incumbent[i] != candidate[i]) write(i, candidate[i], times.candidate);
    return trial_of(times);
  }

  /// Times recorded plans, interleaved with the first ones.
  StepTrial time_recorded(const Picks& start, const Picks& recorded) {
    const StepTimes times = compare(start, recorded);
    write(step_, kRecorded, assembled(parts_, recorded).options, times.candidate);
    return trial_of(times);
  }
  /// Times the plans that won, interleaved with the first ones.
  StepTimes compare_with_start(const Picks& start, const Picks& picks) {
    return measure(assembled(parts_, start), assembled(parts_, picks), kFinalRounds);
  }
  /// A search that the time limit ended leaves a row that does not end the search of the next run.
  void write_winner(const StepPlans& plans, Measurement m) {
    m.detail = plans.options.str();
    m.sampling = time_is_over() ? SamplingClass::screened : SamplingClass::finalist;
    write(step_, kStepPlans, {}, m);
    store_.flush();  // the row of a winner is written before the winner
  }

  /// Times recorded plans again. Their row names the options of the step and keeps its samples.
  Measurement time_again(const StepPlans& plans, const std::string& code_hash) {
    Measurement m = measure(plans, plans, kFinalRounds).candidate;
    m.sampling = SamplingClass::rerun;
    m.resources.code_hash = code_hash;
    write(step_, kStepPlans, plans.options, m);
    store_.flush();
    return m;
  }

  bool time_is_over() const override { return limit_.is_over(); }
  bool has_part(const Picks& picks, std::size_t part) const override {
    if (is_option(part)) return true;
    const auto known = problems_.find(options_of(picks));
    return known != problems_.end() && known->second.contains(parts_[part].problem.key());
  }
  bool is_option(std::size_t part) const override { return !parts_[part].option.empty(); }
  bool are_neighbors(std::size_t part, std::size_t a, std::size_t b) const override {
    const SearchedPart& of = parts_[part];
    return !of.option.empty() || warptune::are_neighbors(ops_.find(of.problem.op), of.plans[a], of.plans[b]);
  }
  Complexity complexity(std::size_t part, std::size_t candidate) const override {
    if (!parts_[part].option.empty()) return {false, 0, 0, candidate};
    const Resources& r = parts_[part].resources[candidate];
    return {r.registers == 0, r.shared_bytes, r.registers, candidate};  // a library's needs are unknown
  }

  const RunInfo& run() const { return run_; }

 private:
  StepTimes compare(const Picks& incumbent, const Picks& candidate) {
    StepTimes times =
        measure(assembled(parts_, incumbent), assembled(parts_, candidate), kStepRounds, 1 - kSameStep);
    problems_[options_of(candidate)] = {times.problems.begin(), times.problems.end()};
    if (is_timed(times.candidate))
      times.candidate.detail = fmt::format("{:.4f} ({:.4f} to {:.4f}) of the step's time so far",
                                           times.ratio.median, times.ratio.low, times.ratio.high);
    return times;
  }
  /// The picks of the options: they decide what problems the step solves.
  Picks options_of(const Picks& picks) const {
    Picks options;
    for (std::size_t i = 0; i < picks.size(); ++i)
      if (is_option(i)) options.push_back(picks[i]);
    return options;
  }
  /// A worker that fails costs the candidate, not the search.
  StepTimes measure(const StepPlans& incumbent, const StepPlans& candidate, int rounds,
                    double slow = Measurement::NAN_VALUE) {
    StepTimes times;
    try {
      times = worker_.time(StepJob{.model = item_.model,
                                   .spec = item_.spec,
                                   .rounds = rounds,
                                   .slow = slow,
                                   .incumbent = incumbent,
                                   .candidate = candidate});
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      times.candidate = {.status = Status::crash, .detail = e.what()};
    }
    if (times.candidate.status != Status::ok) worker_.begin_problem();  // the model may be built again
    return times;
  }

  void write(std::size_t part, std::size_t candidate, Measurement m) {
    if (!parts_[part].option.empty()) {
      Config option;
      set_option(option, parts_[part].option, candidate != 0);
      write(step_, kOptions, option, m);
      return;
    }
    const StepPlan& plan = parts_[part].plans[candidate];
    m.resources = parts_[part].resources[candidate];
    write(plan.problem, plan.variant, plan.config, m);
  }
  void write(const Problem& problem, const std::string& variant, const Config& config, Measurement m) {
    if (m.sampling != SamplingClass::rerun) m.samples_us.clear();  // the samples file has no step
    const StepSpec& spec = item_.spec;
    store_.append({.run = run_,
                   .timestamp_utc = timestamp_utc(),
                   .facts = worker_.facts(),
                   .problem = problem,
                   .variant = variant,
                   .config = config,
                   .cache = kStepCache,
                   .cost = {.bytes = step_bytes(spec.model, spec.dtype, spec.batch, spec.context, spec.kv)},
                   .measurement = std::move(m),
                   .step = step_.key()});
  }

  const OpTable& ops_;
  const StepItem& item_;
  const std::vector<SearchedPart>& parts_;
  DeviceWorker& worker_;
  RowStore& store_;
  const TimeLimit& limit_;
  const Problem step_;
  const RunInfo run_ = new_run();
  std::map<Picks, std::set<std::string>> problems_;  // keys of the problems that a step with options solves
};

/// The columns that identify the row of a step with given plans.
CsvRow step_row(const DeviceFacts& facts, const Problem& step, const std::string& config) {
  return {{"device", facts.name},     {"arch", facts.arch},    {"driver", facts.driver},
          {"toolkit", facts.toolkit}, {"problem", step.key()}, {"variant", kStepPlans},
          {"config", config},         {"cache", kStepCache}};
}

/// What the result of a search depends on: the candidates with their code. An edited comment changes nothing.
std::string search_stamp(const std::vector<SearchedPart>& parts, const StepSpec& spec) {
  std::string text;
  for (const SearchedPart& part : parts) {
    text += part.option + '\n';
    for (const StepPlan& plan : part.plans)
      text += plan.str() + ' ' + (plan.code_hash.empty() ? plan.source_hash : plan.code_hash) + '\n';
  }
  return stamp_of(fmt::format("{:016x}", stable_hash(text)), {.seed = spec.seed});
}

/// A line for each part that changed: "fuse_append=yes", or a problem with its new plan.
std::vector<std::string> changes(const std::vector<SearchedPart>& parts, const Picks& start,
                                 const Picks& picks) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (start[i] == picks[i]) continue;
    if (parts[i].option.empty())
      lines.push_back(parts[i].plans[picks[i]].str());
    else
      lines.push_back(fmt::format("{}={}", parts[i].option, picks[i] == 0 ? "no" : "yes"));
  }
  return lines;
}

/// "load 3.1, verify 0.8, samples 4.9, other 0.5 s"; `all`: seconds.
std::string spent_text(const StageTimes& times, double all) {
  std::string text;
  for (std::size_t i = 0; i < kTuningStages; ++i)
    if (const auto stage = TuningStage(i); times[stage] > 0)
      text += fmt::format("{} {:.1f}, ", name_of(stage), times[stage]);
  return fmt::format("{}other {:.1f} s", text, all - times.sum());
}

}  // namespace

StepTuner::StepTuner(const OpTable& ops, const TuneOptions& options, DeviceWorker& worker, RowStore& store)
    : ops_(ops),
      options_(options),
      worker_(worker),
      store_(store),
      wisdom_(store.csv().parent_path() / "wisdom.json"),
      compiler_(KernelSources(), default_cache_folder(),
                nvrtc_for(options.program, options.compile_seconds)) {}

/// A hash of the plans with the code that they have now.
std::string StepTuner::code_of(const StepPlans& step) const {
  std::vector<std::string> codes(step.plans.size());
  const int jobs = compile_jobs(options_.compile_jobs);
  parallel_for(codes.size(), jobs, [&](std::size_t i) {
    const StepPlan& plan = step.plans[i];
    Winner winner{.problem = plan.problem, .variant = plan.variant, .config = plan.config};
    winner.made_on.arch = worker_.facts().arch;
    const std::string code = code_hash(compiler_, ops_.find(plan.problem.op), winner);
    codes[i] = code.empty() ? source_hash(compiler_, ops_, winner) : code;
  });
  return fmt::format("{:016x}", stable_hash(fmt::format("{}\n{}", step.str(), fmt::join(codes, "\n"))));
}

bool StepTuner::time_again(const StepItem& item) {
  const DeviceFacts& facts = worker_.facts();
  const Problem step = step_problem(item.spec);
  const std::string code = code_of(*item.plans);
  const std::string stamp = stamp_of(code, {.seed = item.spec.seed});
  const KnownRow* known = store_.later(key_of(step_row(facts, step, item.plans->options.str()), stamp));
  const bool is_known = known && known->rows >= options_.rerun;
  const TimeLimit forever;
  const std::vector<SearchedPart> none;
  worker_.begin_problem();
  const Measurement m =
      is_known ? known->measurement
               : WorkerTimer(ops_, item, none, worker_, store_, stamp, forever).time_again(*item.plans, code);
  if (m.status != Status::ok)
    print(options_.log, "{}: {}: {}\n", step.key(), name_of(m.status), one_line(m.detail));
  else
    print(options_.log, "{}: {:.1f} us{}\n", step.key(), m.time_us, is_known ? ", from an earlier run" : "");
  std::fflush(options_.log);
  return m.status == Status::ok;
}

bool StepTuner::run(const StepItem& item, const TimeLimit& limit) {
  const Stopwatch watch;
  const DeviceFacts& facts = worker_.facts();
  const Problem step = step_problem(item.spec);
  if (const std::string lack = lack_of_memory(step.key(), step_memory(item.spec), facts); !lack.empty()) {
    print(options_.log, "left out: {}\n", lack);
    return true;
  }
  if (item.plans) return time_again(item);
  const Wisdom wisdom = Wisdom::load(wisdom_);
  PlanChooser chooser(ops_, facts, {.wisdom = wisdom, .has_wisdom = true});
  const int jobs = compile_jobs(options_.compile_jobs);
  StageTimes spent;
  const auto parts = [&] {
    const StageTimer timer(spent, TuningStage::compile);
    return step_parts(chooser, item, facts, compiler_, jobs);
  }();
  spent -= worker_.stages();
  const std::string stamp = search_stamp(parts, item.spec);
  const KnownRow* known = store_.later(key_of(step_row(facts, step, ""), stamp));
  if (const StepWinner* winner = wisdom.step_on(step, facts.name);
      known && known->measurement.sampling == SamplingClass::finalist && winner) {
    print(options_.log, "{}: {:.1f} us, from an earlier run with the same candidates\n", step.key(),
          winner->time_us);
    return true;
  }

  worker_.begin_problem();
  WorkerTimer timer(ops_, item, parts, worker_, store_, stamp, limit);
  const Picks start = untuned_picks(chooser, item, parts);
  const auto alone = timer.start(start);
  if (!alone) {
    store_.flush();
    print(options_.log, "{}: the step with the winners of its ops fails; its row has the reason\n",
          step.key());
    return false;
  }
  std::vector<std::size_t> sizes;
  for (const SearchedPart& part : parts) sizes.push_back(part.size());
  const StepWinner* recorded = wisdom.nearest_step(step, facts.arch, facts.name);
  Picks first = recorded ? picks_of(recorded->plans, parts, start) : start;
  if (first != start && !is_faster(timer.time_recorded(start, first))) first = start;
  const StepSearch search = search_step(timer, sizes, first);
  const StepTimes last = timer.compare_with_start(start, search.picks);
  const bool compared = is_timed(last.candidate), stays = !is_faster(trial_of(last));
  const Picks& best = stays ? start : search.picks;
  Measurement m = !compared ? *alone : stays ? last.incumbent : last.candidate;
  StepWinner winner{.step = step,
                    .time_us = m.time_us,
                    .alone_us = compared ? last.incumbent.time_us : alone->time_us,
                    .run_id = timer.run().run_id,
                    .csv = store_.csv().filename().string()};
  winner.plans = assembled(parts, best);
  std::erase_if(winner.plans.plans, [&](const StepPlan& plan) {
    const auto part = std::ranges::find(parts, plan.problem, &SearchedPart::problem);
    return !timer.has_part(best, static_cast<std::size_t>(part - parts.begin()));
  });
  timer.write_winner(winner.plans, std::move(m));
  put_step(wisdom_, {facts.name, facts.arch, facts.driver, facts.toolkit, timer.run().git_commit}, winner);

  print(options_.log, "{}: {:.1f} us, {:.1f} us with the winners of its ops alone; {} candidates in {}{}\n",
        step.key(), winner.time_us, winner.alone_us, search.trials, clock_text(watch.seconds()),
        timer.time_is_over() ? ", when the budget was spent" : "");
  for (const std::string& change : changes(parts, start, best)) print(options_.log, "  {}\n", change);
  spent += worker_.stages();
  if (options_.verbose) print(options_.log, "  time: {}\n", spent_text(spent, watch.seconds()));
  std::fflush(options_.log);
  return true;
}

}  // namespace warptune
