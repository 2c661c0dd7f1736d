#include "harness/measure/verified_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/measure/timed_samples.h"
#include "harness/measure/tuning_ranges.h"

namespace warptune {
namespace {

constexpr int kMaxRaised = 3;  // how often a problem's peaks are measured again
constexpr int kRepeats = 4;    // repeats of a verified launch
/// A launch that takes longer where it is verified than both: seconds, and this many of its timed launches.
constexpr double kSlowSeconds = 1, kSlowLaunches = 1000;

/// Verifies the inputs, and on new inputs one launch, which cannot reuse the result of an earlier one, the
/// timed graph, and a part of it.
void verify_after_timing(Workbench& work, const Prepared& prepared, SampleGraph& sample,
                         const TimedRule& rule, Measurement& m) {
  const NvtxRange stage(tuning_stages().verify);
  const StageTimer timer(work.times(), TuningStage::second_verify);
  put_verdict(m, work.check_inputs(), "after timing");
  if (m.status != Status::ok) return;
  if (const double slow = work.slowest_verified_seconds();
      slow > kSlowSeconds && slow > kSlowLaunches * m.time_us * 1e-6) {
    m.fail(Status::wrong_result,
           fmt::format("a launch took {:.1f} s where it was verified, and {:.4g} us where it was timed", slow,
                       m.time_us));
    return;
  }
  Device& device = work.device();
  work.change_inputs();
  if (work.changes_inputs()) sample.graph = work.recorded_once(prepared);
  const auto once = [&] { prepared.plan->launch(prepared.args.back().data(), device.stream()); };
  put_verdict(m, work.verify(once), "after timing");
  if (m.status == Status::ok)
    put_verdict(m, work.verify_again(1, [&] { sample.graph->launch(device.stream()); }), "after timing");
  const bool may_win = m.sampling != SamplingClass::abandoned && !(m.time_us > rule.best_us);
  if (m.status == Status::ok && may_win) put_verdict(m, work.verify_part(prepared, sample), "after timing");
}

}  // namespace

void put_verdict(Measurement& m, const Verdict& verdict, const char* when) {
  m.max_abs_err =
      std::isnan(m.max_abs_err) ? verdict.max_abs_err : std::max(m.max_abs_err, verdict.max_abs_err);
  m.rel_l2_err = std::isnan(m.rel_l2_err) ? verdict.rel_l2_err : std::max(m.rel_l2_err, verdict.rel_l2_err);
  if (!verdict.ok) m.fail(Status::wrong_result, fmt::format("{}: {}", when, verdict.detail));
}

void check_peaks(Workbench& work, Measurement& m, Timing timing, const MeasurePeaks& measure, int& raised) {
  const auto impossible = [&] {
    return work.device().largest(m.status == Status::ok && m.time_us < work.impossible_us(timing)) > 0;
  };
  if (impossible() && raised < kMaxRaised) {
    raise_peaks(work.device(), measure);
    m.floor_us = floor_us(work.device().facts(), work.cost(), work.problem());
    ++raised;
  }
  if (!impossible()) return;
  const std::string sentence =
      fmt::format("below the {:.3f} us that the measured peaks allow", work.impossible_us(timing));
  if (work.device().facts().backend == Backend::host) {
    m.detail = m.detail.empty() ? sentence : m.detail + "; " + sentence;
    return;
  }
  m.fail(Status::too_fast, sentence);
}

Measurement verified_run(Workbench& work, const Variant& variant, const Config& config, const TimedRule& rule,
                         const Seconds& now) {
  Device& device = work.device();
  Measurement m;
  m.floor_us = floor_us(device.facts(), work.cost(), work.problem());
  const ConfigRange range(work.problem(), variant, config);
  Prepared prepared;
  try {
    const NvtxRange stage(tuning_stages().compile);
    const StageTimer timer(work.times(), TuningStage::load);
    prepared = work.prepare(variant, config);
  } catch (const CompileError& e) {
    m.fail(Status::compile_error, e.what());
    return m;
  } catch (const ResourceError& e) {
    m.fail(Status::resource, e.what());
    return m;
  }
  m.resources = prepared.plan->resources();

  guarded(device, m, [&] {
    work.begin();
    const auto once = [&] { prepared.plan->launch(prepared.args.back().data(), device.stream()); };
    {
      const NvtxRange stage(tuning_stages().verify);
      const StageTimer timer(work.times(), TuningStage::verify);
      put_verdict(m, work.verify(once), "before timing");
      if (m.status == Status::ok) put_verdict(m, work.verify_again(kRepeats, once), "before timing");
      if (m.status != Status::ok) return;
    }

    SampleGraph sample;
    {
      const NvtxRange stage(tuning_stages().time);
      const bool isolated = rule.timing == Timing::isolated;
      {
        const StageTimer timer(work.times(), TuningStage::capture);
        if (isolated)
          sample.graph = work.recorded_once(prepared);
        else if (rule.launches > 0)
          sample = {work.record(prepared, rule.launches), rule.launches};
        else
          sample = work.record_sample(prepared, false, rule.sample_us);
      }
      const StageTimer timer(work.times(), TuningStage::samples);
      ClockWatch watch(device, now);
      const double duty_cycle = work.options().duty_cycle;
      const Samples samples = rule.sampling(
          [&] { return timed(device, *sample.graph, watch, isolated || work.flush(), duty_cycle); },
          sample.launches);
      put_samples(m, samples, sample.launches, duty_cycle);
      m.clocks = watch.summary(samples.throttled > 0);
      if (m.status != Status::ok) return;
    }

    verify_after_timing(work, prepared, sample, rule, m);
    if (m.status == Status::ok) work.end();
  });
  return m;
}

}  // namespace warptune
