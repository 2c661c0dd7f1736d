// The problems of a run that the wisdom does not know are timed before it.

#include <algorithm>
#include <memory>
#include <set>

#include "cli/decode.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/core/stopwatch.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/step_problem.h"
#include "harness/select/plan_chooser.h"
#include "harness/tune/missing.h"
#include "harness/tune/tune.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

constexpr double kDefaultSeconds = 0.3;  // GPU time per problem

/// The problems of the run, without those of a step that was tuned as a whole and those with a plan of a near
/// step.
std::vector<Problem> problems_of(const OpTable& ops, const ModelConfig& config, DType dtype,
                                 const KvFormat& kv, const Prompts& prompts, const Lengths& lengths,
                                 PlanChooser& chooser) {
  const int batch = static_cast<int>(prompts.lengths.size());
  const std::set<std::int64_t> distinct(prompts.lengths.begin(), prompts.lengths.end());
  const std::vector<std::int64_t> prompt_lens(distinct.begin(), distinct.end());
  std::vector<Problem> problems = prefill_problems(ops, config, dtype, batch, prompt_lens, kv);
  std::vector<std::int64_t> contexts(lengths.contexts.begin(), lengths.contexts.end());
  for (int step = 1; step <= lengths.steps; ++step) contexts.push_back(lengths.prompt + step);
  for (const std::int64_t context : distinct_buckets(contexts)) {
    chooser.enter_step(step_problem(config, dtype, batch, context, kv));
    const StepPlans* step = chooser.step();
    if (!step || chooser.is_near_step())
      std::ranges::copy_if(decode_problems(ops, config, dtype, batch, std::span(&context, 1), kv),
                           std::back_inserter(problems),
                           [&](const Problem& problem) { return !step || !step->find(problem); });
    chooser.leave_step();
  }
  return problems;
}

/// A sweep of these problems with all variants. Screening takes a half of the time, the finalists the rest.
Sweep sweep_of(const OpTable& ops, const std::vector<Problem>& problems, const DecodeOptions& options,
               const PlanOptions& plans, double seconds) {
  Sweep sweep{.name = "missing", .ops = &ops};
  for (const Problem& problem : problems) {
    if (contains(plans.overrides, problem.op, &PlanOverride::op)) continue;
    if (ranks_of(problem) > 1) continue;
    const OpEntry& entry = ops.find(problem.op);
    SweepItem item{.entry = &entry,
                   .problem = problem,
                   .options = {.max_rel_ci = 0.01, .min_samples = 7, .max_time = seconds / 24},
                   .finalists = 3};
    for (const Variant& variant : entry.variants) item.choices.push_back({.variant = &variant});
    sweep.items.push_back(std::move(item));
  }
  sweep.kernels = options.kernels.files_as_read();
  return sweep;
}

void time_all(const Sweep& sweep, const DecodeOptions& options, const fs::path& wisdom) {
  std::size_t configurations = 0;
  for (const SweepItem& item : sweep.items) configurations += item.choices.size();
  const Stopwatch watch;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> silent(std::fopen("/dev/null", "w"), std::fclose);
  tune(sweep, {.device = options.device,
               .output = options.out,
               .log = options.verbose || !silent ? stdout : silent.get()});
  print_note(
      "{} problems had no winner: {} configurations are timed in {:.1f} s, the winners are in {} "
      "(--tune-missing 0 turns this off)",
      sweep.items.size(), configurations, watch.seconds(), wisdom.string());
}

}  // namespace

void tune_missing(const DecodeOptions& options, const ModelConfig& config, DType dtype, const KvFormat& kv,
                  const Prompts& prompts, const Lengths& lengths, const DeviceFacts& facts,
                  PlanOptions& plans, bool times) {
  const double seconds =
      options.tune_missing.value_or(facts.backend == Backend::host ? 0.0 : kDefaultSeconds);
  if (seconds <= 0 || plans.naive) return;
  const OpTable& ops = options.kernels.ops();
  const fs::path file = fs::path(options.out) / facts.slug() / "wisdom.json";
  try {
    PlanOptions known{.wisdom = plans.wisdom, .has_wisdom = true, .stale = plans.stale};
    const auto recorded = [&] { return fs::exists(file) ? Wisdom::load(file) : Wisdom(); };
    PlanChooser chooser(ops, facts, known);
    const Sweep all = sweep_of(ops, problems_of(ops, config, dtype, kv, prompts, lengths, chooser), options,
                               plans, seconds);
    // An earlier run may have timed a problem that the given wisdom does not have.
    const Wisdom earlier = recorded();
    for (const SweepItem& item : all.items)
      if (const Winner* winner = earlier.winner_on(item.problem, facts.name);
          winner && !chooser.is_tuned(item.problem))
        known.wisdom.put(*winner);
    const Sweep missing = missing_part(all, facts, known);
    if (times && !missing.items.empty()) {
      time_all(missing, options, file);
      const Wisdom now = recorded();
      for (const SweepItem& item : missing.items)
        if (const Winner* winner = now.winner_on(item.problem, facts.name)) known.wisdom.put(*winner);
    }
    plans.has_wisdom |= !known.wisdom.winners().empty();
    plans.wisdom = std::move(known.wisdom);
  } catch (const std::exception& e) {
    print_note("the problems without a winner are not timed: {}", e.what());
  }
}

}  // namespace warptune
