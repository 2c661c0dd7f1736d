#pragma once
// What is known of one configuration after it was tried.
#include <string>
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

/// Raised when the same kernel would give other numbers or another status than before: rows of an older
/// version are measured again.
inline constexpr int kMeasuringVersion = 2;

/// Times in microseconds per launch. NaN where not measured.
struct Measurement {
  Status status = Status::ok;
  std::string detail;      // one sentence where status is not ok, or where there is something to say
  bool abandoned = false;  // surely slower than the best, so that sampling ended early
  double time_us = NAN_VALUE, time_us_min = NAN_VALUE, time_us_p10 = NAN_VALUE, time_us_p90 = NAN_VALUE;
  double ci_low_us = NAN_VALUE, ci_high_us = NAN_VALUE;
  int samples = 0, launches_per_sample = 0;
  std::vector<double> samples_us = {};  // per launch, in the order they were taken
  double floor_us = NAN_VALUE;
  double max_abs_err = NAN_VALUE, rel_l2_err = NAN_VALUE;
  Resources resources;
  Clocks clocks{NAN_VALUE, NAN_VALUE, NAN_VALUE, ""};

  static constexpr double NAN_VALUE = __builtin_nan("");
};

}  // namespace warptune
