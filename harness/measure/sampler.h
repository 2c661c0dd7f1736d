#pragma once
// Samples a replay until the interval of its median is narrow enough.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

struct SamplingRule {
  double max_rel_ci = 0.005;  // half-width of the 95 % interval of the median over the median
  int min_samples = 11;
  double max_time = 0.25;     // seconds of sampling, without discarded samples
  double best_us = NAN_TIME;  // stop once the median is surely above this; NaN: never
  int max_discarded = 32;     // throttled samples that are taken again
  static constexpr double NAN_TIME = __builtin_nan("");
};

/// One timed replay. `throttled`: the device throttled its clocks during the sample.
struct Sample {
  double us = 0;
  bool throttled = false;
  double host_us = kUnknown;  // by the host's clock, with the flush before it; unknown of ranks
  static constexpr double kUnknown = __builtin_nan("");
};

/// Why sampling ended.
enum class Stop {
  converged,  // the interval is narrow enough
  max_time,   // the time is used up
  abandoned,  // surely slower than `best_us`
  no_time     // the samples are negative or not finite
};

struct Samples {
  std::vector<double> us;     // kept, in order
  std::vector<double> drift;  // a factor of each sample, which interleave() knows; empty: none
  Stop stop = Stop::converged;
  double rel_ci = 0;  // half-width of the interval over the median; infinite where the median is 0
  int discarded = 0;  // throttled and taken again
  int throttled = 0;  // throttled and kept, after max_discarded discarded ones
  /// The smallest ratio of a sample's time by the host's clock, less the longest overhead of a replay, to its
  /// time by the device's events. The events lie within the call, so only a wrong event makes it large.
  double host_ratio = __builtin_inf();

  void keep(const Sample& sample);
};

/// The samples by size, each over its drift. Intervals are of these.
std::vector<double> sorted_without_drift(const Samples& samples);

using Seconds = std::function<double()>;  // a clock; tests bring their own
double steady_seconds();

/// Calls `sample` until the rule is met. Takes at least `min_samples` samples, or 3 if one sample takes a
/// quarter of the time, or fewer if it abandons: with an interval if its lower end is above `best_us`; before
/// that, from two samples on, if even the smallest is further above it (20 % over the number of samples). It
/// discards up to `max_discarded` throttled samples and keeps and counts later ones, so that a device that is
/// always throttled still gets a time.
Samples sample_until(const SamplingRule& rule, const std::function<Sample()>& sample,
                     const Seconds& now = steady_seconds);

/// The beginning of the sentence for abandoned samples.
inline constexpr std::string_view kAbandoned = "abandoned after";
/// One sentence about early stops and throttled samples, or "".
std::string sentence_of(const Samples& samples);

}  // namespace warptune
