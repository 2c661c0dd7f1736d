#pragma once
// The result of measuring one configuration.
#include <string>
#include <utility>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

/// The order and names are those of the CSV column `status`.
enum class Status {
  ok,
  constraint,
  compile_error,
  resource,
  launch_error,
  wrong_result,
  timeout,
  crash,
  too_fast
};
std::string_view name_of(Status status);
Status parse_status(std::string_view name);

/// How the times of a row were sampled. The order and names are those of the CSV column `sampling`.
enum class SamplingClass {
  screened,      // in the screening: short, before finalists are chosen
  abandoned,     // in the screening, ended early: surely slower than the best
  single,        // the only configuration of its problem
  finalist,      // interleaved with the other finalists, in the sweep's cache state
  other_cache,   // a finalist in another cache state
  rerun,         // a winner, timed again by `rerun`
  fresh_process  // a finalist, timed again in a process that has timed nothing else of its problem
};
std::string_view name_of(SamplingClass sampling);
/// Throws InputError for an unknown name.
SamplingClass parse_sampling_class(std::string_view name);

/// Increased when a change of the harness gives the same kernel other numbers or another status: rows of an
/// older version are measured again.
inline constexpr int kMeasuringVersion = 2;

/// Times in microseconds per launch. NaN where not measured.
struct Measurement {
  Status status = Status::ok;
  std::string detail;  // one sentence if status is not ok, or if there is a note
  SamplingClass sampling = SamplingClass::screened;
  double time_us = NAN_VALUE, time_us_min = NAN_VALUE, time_us_p10 = NAN_VALUE, time_us_p90 = NAN_VALUE;
  double ci_low_us = NAN_VALUE, ci_high_us = NAN_VALUE;
  int samples = 0, launches_per_sample = 0;
  std::vector<double> samples_us = {};                             // per launch, in the order of measurement
  double energy_uj = NAN_VALUE;                                    // per launch
  double sustained_us = NAN_VALUE, sustained_power_w = NAN_VALUE;  // after ten seconds of steady load
  double floor_us = NAN_VALUE;
  double max_abs_err = NAN_VALUE, rel_l2_err = NAN_VALUE;
  Resources resources;
  Clocks clocks;

  static constexpr double NAN_VALUE = __builtin_nan("");

  void fail(Status why, std::string sentence) {
    status = why;
    detail = std::move(sentence);
  }
};

}  // namespace warptune
