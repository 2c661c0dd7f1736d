#include "harness/llama/step_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/core/error.h"
#include "harness/llama/decode_report.h"
#include "harness/llama/golden.h"
#include "harness/llama/memory_need.h"
#include "harness/measure/agreement.h"
#include "harness/measure/interleave.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timed_samples.h"

namespace warptune {
namespace {

// Verified replays feed kVerifiedId. The replay before them feeds kOtherId, so that an output that a wrong
// plan does not write holds other values than the right ones.
constexpr int kVerifiedId = 1, kOtherId = 2;

ModelOptions model_options(const StepSpec& spec) {
  return {.batch = spec.batch, .capacity = spec.context, .max_steps = 1, .kv = spec.kv};
}

/// Throws ResourceError before anything is allocated where the model does not fit.
Weights weights_for(Device& device, const StepSpec& spec, StageTimes& times) {
  const StageTimer timer(times, TuningStage::buffers);
  constexpr double kMiB = 1 << 20;
  const double need = step_memory(spec);
  if (const auto free = static_cast<double>(device.free_bytes()); device.largest(need - free) > 0)
    throw ResourceError("{} needs {:.0f} MiB and {} has {:.0f} MiB free", spec.model.name, need / kMiB,
                        device.facts().name, free / kMiB);
  return random_weights(device, spec.model, spec.dtype, spec.seed);
}

/// A token for each sequence.
std::vector<int> tokens_from(int first, const StepSpec& spec) {
  std::vector<int> ids;
  for (int b = 0; b < spec.batch; ++b) ids.push_back((first + b) % spec.model.vocab);
  return ids;
}

TimeRatio ratio_of(const std::vector<double>& candidate, const std::vector<double>& incumbent) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(candidate.size(), incumbent.size()); ++i)
    ratios.push_back(candidate[i] / incumbent[i]);
  std::ranges::sort(ratios);
  const auto [low, high] = median_interval(ratios);
  return {.median = quantile(ratios, 0.5), .low = low, .high = high};
}

}  // namespace

StepBench::StepBench(const OpTable& ops, Device& device, StepSpec spec, Seconds now)
    : device_(device),
      spec_(std::move(spec)),
      now_(common_clock(device, std::move(now))),
      weights_(weights_for(device, spec_, times_)),
      book_(ops, device, {.tell = [this](const std::string& remark) { remark_ = remark; }}),
      model_(device, spec_.model, weights_, book_, model_options(spec_)),
      reference_(naive_logits(ops)) {}

/// The naive plans attend to the same random keys and values.
std::vector<float> StepBench::naive_logits(const OpTable& ops) {
  const StageTimer timer(times_, TuningStage::reference);
  PlanBook book(ops, device_, {.naive = true});
  ModelOptions options = model_options(spec_);
  options.fuse = kUnfused;
  options.graph = false;
  Model naive(device_, spec_.model, weights_, book, options);
  model_.pin(spec_.context);
  naive.start_from(model_);
  naive.force(tokens_from(kVerifiedId, spec_));
  naive.step();
  return naive.logits();
}

/// Waits for the end.
void StepBench::replay(CapturedGraph& graph, int first_id) {
  model_.pin(spec_.context);
  model_.force(tokens_from(first_id, spec_));
  graph.launch(device_.stream());
  device_.synchronize();
}

/// Compares the logits of a replay with those of the naive plans, and the sampled token with the logits.
void StepBench::verify(Built& built, CapturedGraph& before, TuningStage stage, const char* when) {
  const StageTimer timer(times_, stage);
  replay(before, kOtherId);
  replay(*built.step.mapped().graph, kVerifiedId);
  const std::vector<float> logits = model_.logits();
  const std::vector<int> ids = model_.ids();
  Agreement agreement(spec_.dtype, spec_.kv, ComparedWith::run);
  const auto vocab = static_cast<std::size_t>(spec_.model.vocab);
  Verdict verdict{.ok = true, .detail = {}};
  for (std::size_t b = 0; b < ids.size(); ++b) {
    const auto row = std::span(logits).subspan(b * vocab, vocab);
    agreement.add(row, std::span(reference_).subspan(b * vocab, vocab), static_cast<int>(b), 0);
    const int id = ids[b];
    if (id < 0 || id >= spec_.model.vocab || row[id] < *std::ranges::max_element(row))
      verdict = {.detail = fmt::format("sequence {}: token {} does not have the largest logit", b, id)};
  }
  if (!agreement.rows_ok()) verdict = {.detail = agreement.summary()};
  verdict.rel_l2_err = agreement.worst_row();
  verdict = on_all_ranks(device_, std::move(verdict));
  if (!verdict.ok)
    built.state.fail(Status::wrong_result, fmt::format("{} in the step: {}", when, verdict.detail));
  built.state.rel_l2_err = std::fmax(built.state.rel_l2_err, verdict.rel_l2_err);
}

StepBench::Built& StepBench::build(const StepPlans& plans) {
  const StageTimer timer(times_, TuningStage::load);
  const auto [it, is_new] = built_.try_emplace(plans.str());
  Built& built = it->second;
  if (!is_new) return built;
  guarded(device_, built.state, [&] {
    book_.fix_step(plans);
    model_.pin(spec_.context);
    built.step = model_.take_step(spec_.context);
    for (const Call& call : built.step.mapped().calls)
      if (const StepPlan* plan = plans.find(call.entry->problem);
          plan && (plan->variant != call.entry->variant || !(plan->config == call.entry->config)))
        throw ResourceError(remark_);
  });
  fail_on_all_ranks(device_, built.state);
  if (const double rate = device_.facts().read_gb_per_s; rate > 0)
    built.state.floor_us =
        step_bytes(spec_.model, spec_.dtype, spec_.batch, spec_.context, spec_.kv) / rate * 1e-3;
  return built;
}

StepTimes StepBench::compare(const StepPlans& incumbent, const StepPlans& candidate, int rounds,
                             double slow) {
  std::erase_if(built_, [&](const auto& known) { return known.first != incumbent.str(); });
  Built &base = build(incumbent), &other = build(candidate);
  StepTimes times{.incumbent = base.state, .candidate = other.state};
  if (!other.step.empty()) {
    const Model::Step& step = other.step.mapped();
    std::set<std::string> problems;
    for (const Call& call : step.calls) problems.insert(call.entry->problem.key());
    times.problems.assign(problems.begin(), problems.end());
  }

  std::vector<Built*> timed_ones = {&base};
  if (&other != &base) timed_ones.push_back(&other);
  std::vector<Measurement> measured;
  guarded(device_, other.state, [&] {
    if (other.state.status == Status::ok)
      verify(other, *base.step.mapped().graph, TuningStage::verify, "before timing");
    if (other.state.status != Status::ok || base.state.status != Status::ok) return;
    std::vector<ClockWatch> watches(timed_ones.size(), ClockWatch(device_));
    const auto take = [&](std::size_t i) {
      model_.pin(spec_.context);
      return timed(device_, *timed_ones[i]->step.mapped().graph, watches[i], false);
    };
    const auto is_slow = [slow](const std::vector<Samples>& of) {
      return of.size() == 2 && ratio_of(of[1].us, of[0].us).low > slow;
    };
    const auto samples = [&] {
      const StageTimer timer(times_, TuningStage::samples);
      return interleave({.rounds = rounds, .is_decided = is_slow}, timed_ones.size(), take, now_);
    }();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Measurement& m = measured.emplace_back(timed_ones[i]->state);
      put_samples(m, samples[i], 1);
      m.clocks = watches[i].summary(samples[i].throttled > 0);
    }
    if (measured.size() == 2) times.ratio = ratio_of(samples[1].us, samples[0].us);
    if (!is_slow(samples))
      verify(other, *base.step.mapped().graph, TuningStage::second_verify, "after timing");
  });
  if (measured.size() == timed_ones.size()) {
    times.incumbent = measured.front();
    times.candidate = measured.back();
    times.candidate.rel_l2_err = other.state.rel_l2_err;  // the worse of both verifications
  }
  if (other.state.status != Status::ok) times.candidate = other.state;
  if (base.state.status != Status::ok)
    times.candidate = {.status = base.state.status,
                       .detail = "the step it is compared with: " + base.state.detail};
  return times;
}

}  // namespace warptune
