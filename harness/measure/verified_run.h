#pragma once
// One configuration from its compilation to the verification after timing, sampled by any rule.
#include <functional>

#include "harness/measure/bench.h"
#include "harness/measure/workbench.h"

namespace warptune {

/// Takes samples by any rule: `take` times one replay of `launches` launches.
using TakeSamples = std::function<Samples(const std::function<Sample()>& take, int launches)>;

/// What is timed of a configuration, and how often.
struct TimedRule {
  TakeSamples sampling;
  Timing timing = Timing::main;  // in the workbench's cache state, or isolated: a flush, then one launch
  int launches = 0;              // in a sample; 0: enough for sample_us
  double best_us = Measurement::NAN_VALUE;  // a sample is verified in part too unless it is slower than this
  double sample_us = kSampleUs;
};

/// Compiles, verifies, takes samples, and verifies again on other inputs. A failure of the configuration
/// becomes its status; errors of the device itself (a sticky CUDA error) are thrown. Call check_peaks() next.
Measurement verified_run(Workbench& work, const Variant& variant, const Config& config, const TimedRule& rule,
                         const Seconds& now = steady_seconds);

/// A time below what the peaks allow means that a peak or the kernel is wrong, so the peaks are measured
/// again first, at most three times per problem (`raised` counts). What stays impossible becomes too_fast, on
/// a host only a note: its caches hold more than they report, and other load comes and goes.
void check_peaks(Workbench& work, Measurement& measurement, Timing timing, const MeasurePeaks& measure,
                 int& raised);

/// Stores the errors of a verification; a failed one becomes wrong_result with `when` it was.
void put_verdict(Measurement& measurement, const Verdict& verdict, const char* when);

}  // namespace warptune
