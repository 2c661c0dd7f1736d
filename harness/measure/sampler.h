#pragma once
// Samples of a replay until their median is known well enough.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

struct SamplingRule {
  double max_rel_ci = 0.005;  // half-width of the 95 % interval of the median over the median
  int min_samples = 11;
  double max_time = 0.25;     // seconds of sampling; what is discarded does not count
  double best_us = NAN_TIME;  // stop where the median is surely above this; NaN: never
  int max_discarded = 32;     // throttled samples that are taken again
  static constexpr double NAN_TIME = __builtin_nan("");
};

/// One timed replay. `throttled`: the device held its clocks down meanwhile.
struct Sample {
  double us = 0;
  bool throttled = false;
};

/// Why sampling ended.
enum class Stop {
  converged,  // the interval is as narrow as wanted
  max_time,   // the time is spent
  abandoned,  // the lower end of the interval is above `best_us`
  no_time     // the samples are not finite or negative: nothing is known
};

struct Samples {
  std::vector<double> us;  // kept, in order
  Stop stop = Stop::converged;
  double rel_ci = 0;  // half-width of the interval over the median; infinite where the median is 0
  int discarded = 0;  // throttled and taken again
  int throttled = 0;  // throttled and kept, since the budget was spent
};

using Seconds = std::function<double()>;  // a clock

/// Calls `sample` until the rule is met. At least `min_samples` unless one sample alone takes a quarter of
/// the time, then at least 3; fewer where it is abandoned. A throttled sample is discarded while the budget
/// lasts, and kept and counted after that, so that a device which is always throttled still gets a time.
Samples sample_until(const SamplingRule& rule, const std::function<Sample()>& sample, Seconds now = {});

/// How the sentence of abandoned samples begins.
inline constexpr std::string_view kAbandoned = "abandoned after";
/// One sentence where there is something to say of how the sampling went, else "".
std::string sentence_of(const Samples& samples);

}  // namespace warptune
