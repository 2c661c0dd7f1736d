#include "harness/measure/bench.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/measure/agreement.h"
#include "harness/measure/interleave.h"
#include "harness/measure/steady_load.h"
#include "harness/measure/timed_samples.h"
#include "harness/measure/tuning_ranges.h"
#include "harness/measure/verified_run.h"

namespace warptune {
namespace {

constexpr double kAbandonMargin = 1.02;  // clocks may drift this much between the best and a later one
constexpr double kInterleavedTime = 4;   // in units of max_time, for each finalist

}  // namespace

Bench::Bench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options,
             MeasurePeaks measure, Seconds now)
    : now_(common_clock(device, std::move(now))),
      work_(std::make_unique<Workbench>(device, entry, std::move(problem), options, now_)),
      measure_(std::move(measure)) {}
Bench::~Bench() = default;
const Problem& Bench::problem() const { return work_->problem(); }
StageTimes Bench::take_times() { return std::exchange(work_->times(), {}); }

void Bench::check_peaks(Measurement& m, Timing timing) {
  warptune::check_peaks(*work_, m, timing, measure_, raised_);
}

Measurement Bench::run(const Variant& variant, const Config& config, double best_us, double sample_us) {
  const BenchOptions& o = work_->options();
  const TakeSamples until_narrow = [&](const std::function<Sample()>& take, int launches) {
    return sample_until({.max_rel_ci = o.max_rel_ci,
                         .min_samples = o.min_samples,
                         .max_time = o.max_time / o.duty_cycle,
                         .best_us = best_us * kAbandonMargin * launches},
                        take, now_);
  };
  Measurement m = verified_run(*work_, variant, config,
                               {.sampling = until_narrow, .best_us = best_us, .sample_us = sample_us}, now_);
  check_peaks(m, Timing::main);
  return m;
}

std::vector<FinalistTimes> Bench::time_interleaved(const std::vector<Finalist>& finalists, int rounds,
                                                   FinalistExtras extras) {
  Workbench& work = *work_;
  const StageTimer timer(work.times(), TuningStage::finalists);
  Device& device = work.device();
  struct Entrant {
    Prepared prepared;
    SampleGraph rotating, hot, once;
  };
  std::vector<Entrant> entrants(finalists.size());
  std::vector<FinalistTimes> times(finalists.size());
  std::vector<Measurement> state(finalists.size());  // the failure of each, if any
  const bool hot_too = extras.other_caches && work.options().cache != CacheMode::hot;

  work.begin();
  for (std::size_t i = 0; i < finalists.size(); ++i)
    guarded(device, state[i], [&] {
      const ConfigRange range(work.problem(), *finalists[i].variant, finalists[i].config);
      const NvtxRange stage(tuning_stages().compile);
      Entrant& e = entrants[i];
      e.prepared = work.prepare(*finalists[i].variant, finalists[i].config);
      state[i].resources = e.prepared.plan->resources();
      state[i].floor_us = floor_us(device.facts(), work.cost(), work.problem());
      device.reset_persisting_cache();
      e.rotating = work.record_sample(e.prepared);
      e.once.graph = work.recorded_once(e.prepared);
      if (hot_too) e.hot = work.record_sample(e.prepared, true);
      if (const std::string change = device.restore_l2_policy(); !change.empty())
        state[i].fail(Status::wrong_result, change);
    });
  device.wait_for_all();  // what one has left on other streams does not slow the others

  const InterleaveRule rule{.rounds = rounds,
                            .max_rel_ci = work.options().max_rel_ci,
                            .max_time = kInterleavedTime * work.options().max_time /
                                        work.options().duty_cycle * static_cast<double>(finalists.size())};
  const auto phase = [&](Measurement FinalistTimes::*part, SampleGraph Entrant::*sampled, bool flush) {
    const NvtxRange stage(tuning_stages().time);
    std::vector<ClockWatch> watches(finalists.size(), ClockWatch(device, now_));
    const auto take = [&](std::size_t i) {
      Sample sample{.us = NAN};
      if (state[i].status == Status::ok)
        guarded(device, state[i], [&] {
          sample = timed(device, *(entrants[i].*sampled).graph, watches[i], flush, work.options().duty_cycle);
        });
      return sample;
    };
    const auto samples = interleave(rule, finalists.size(), take, now_);
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      Measurement& m = times[i].*part;
      m = state[i];
      if (state[i].status != Status::ok) continue;
      put_samples(m, samples[i], (entrants[i].*sampled).launches, work.options().duty_cycle);
      m.clocks = watches[i].summary(samples[i].throttled > 0);
    }
  };
  phase(&FinalistTimes::main, &Entrant::rotating, work.flush());
  if (hot_too) phase(&FinalistTimes::hot, &Entrant::hot, false);
  if (extras.other_caches) phase(&FinalistTimes::isolated, &Entrant::once, true);

  for (std::size_t i = 0; i < finalists.size() && (extras.energy || extras.sustained); ++i)
    if (state[i].status == Status::ok)
      guarded(device, state[i], [&] {
        const SampleGraph& sample = entrants[i].rotating;
        Measurement& m = times[i].main;
        const LoadEnergy energy = energy_under_load(device, *sample.graph, sample.launches, now_,
                                                    extras.sustained ? kSustainedSeconds : 0);
        m.energy_uj = energy.launch_uj;
        if (!extras.sustained) return;
        m.sustained_power_w = energy.power_w;
        m.sustained_us = time_under_load(device, *sample.graph, sample.launches, work.flush());
      });

  bool all_right = true;
  work.change_inputs();
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    Measurement& m = state[i];
    if (m.status == Status::ok)
      guarded(device, m, [&] {
        const ConfigRange range(work.problem(), *finalists[i].variant, finalists[i].config);
        const NvtxRange stage(tuning_stages().verify);
        Entrant& e = entrants[i];
        CapturedGraph& checked = *(work.changes_inputs() ? e.once : e.rotating).graph;
        put_verdict(m, work.verify([&] { checked.launch(device.stream()); }), "after timing as a finalist");
        if (m.status == Status::ok)
          put_verdict(m, work.verify_part(e.prepared, e.rotating), "after timing as a finalist");
      });
    for (Measurement* part : {&times[i].main, &times[i].hot, &times[i].isolated}) {
      part->max_abs_err = m.max_abs_err;
      part->rel_l2_err = m.rel_l2_err;
      if (m.status == Status::ok) continue;
      part->status = m.status;
      part->detail = m.detail;
    }
    all_right = all_right && m.status == Status::ok;
    check_peaks(times[i].main, Timing::main);
    if (hot_too) check_peaks(times[i].hot, Timing::hot);
    if (extras.other_caches) check_peaks(times[i].isolated, Timing::isolated);
    if (m.status != Status::ok) {  // it may have changed the tensors of the next
      work.begin();
    }
  }
  if (all_right) work.end();
  return times;
}

double floor_us(const DeviceFacts& facts, const Cost& cost, const Problem& problem) {
  double rate = problem.dtype == DType::fp32 ? facts.vector_tflop_per_s : facts.matrix_tflop_per_s;
  if (cost.tf32_products > 0 && problem.dtype == DType::fp32 && rate > 0)
    rate = std::max(rate, facts.matrix_tflop_per_s / (2 * cost.tf32_products));
  if (cost.fp8_products) rate = 2 * facts.matrix_tflop_per_s;
  const double memory = facts.read_gb_per_s > 0 ? cost.bytes / facts.read_gb_per_s * 1e-3 : 0;
  const double arithmetic = rate > 0 ? cost.flops / rate * 1e-6 : 0;
  return std::max(memory, arithmetic);
}

}  // namespace warptune
