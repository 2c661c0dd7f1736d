#include "harness/measure/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/measure/statistics.h"

namespace warptune {
namespace {

constexpr std::size_t kMinForInterval = kMinSamplesForInterval;
constexpr std::size_t kMaxSamples = 100'000;
constexpr int kMaxInvalid = 16;
/// Of flush, launch and waiting: far more than they take, also where another process has a turn on the
/// device.
constexpr double kReplayOverheadUs = 3000;
/// Over the number of samples: how far above the best samples without an interval are surely slower.
constexpr double kFar = 0.2;

/// Whether the median is surely above `best_us`. NaN never is.
bool is_surely_slower(const std::vector<double>& sorted, double best_us) {
  const std::size_t n = sorted.size();
  if (n >= kMinForInterval) return median_interval(sorted).first > best_us;
  return n >= 2 && sorted.front() > best_us * (1 + kFar / static_cast<double>(n));
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<double> sorted_without_drift(const Samples& samples) {
  std::vector<double> sorted = samples.us;
  for (std::size_t i = 0; i < samples.drift.size(); ++i) sorted[i] /= samples.drift[i];
  std::ranges::sort(sorted);
  return sorted;
}

Samples sample_until(const SamplingRule& rule, const std::function<Sample()>& sample, const Seconds& now) {
  const double start = now();
  double discarded_seconds = 0;
  int invalid = 0;
  Samples result;
  std::vector<double> sorted;
  for (;;) {
    const double before = now();
    const Sample one = sample();
    if (!std::isfinite(one.us) || one.us < 0) {
      if (++invalid < kMaxInvalid) continue;
      result.stop = Stop::no_time;
      return result;
    }
    if (one.throttled && result.discarded < rule.max_discarded) {
      ++result.discarded;
      discarded_seconds += now() - before;
      continue;
    }
    result.keep(one);
    sorted.insert(std::ranges::upper_bound(sorted, one.us), one.us);
    const std::size_t n = sorted.size();
    result.rel_ci = rel_half_width(sorted);
    if (is_surely_slower(sorted, rule.best_us)) {
      result.stop = Stop::abandoned;
      return result;
    }
    const bool slow = one.us * 1e-6 > rule.max_time / 4;
    if (n < static_cast<std::size_t>(std::max(1, slow ? std::min(3, rule.min_samples) : rule.min_samples)))
      continue;
    if (result.rel_ci <= rule.max_rel_ci) {
      result.stop = Stop::converged;
      return result;
    }
    if (!(now() - start - discarded_seconds < rule.max_time) || n >= kMaxSamples) {
      result.stop = Stop::max_time;
      return result;
    }
  }
}

void Samples::keep(const Sample& sample) {
  throttled += sample.throttled;
  us.push_back(sample.us);
  host_ratio = std::fmin(host_ratio, (sample.host_us - kReplayOverheadUs) / sample.us);
}

std::string sentence_of(const Samples& s) {
  std::string text;
  const auto add = [&](std::string more) { text += (text.empty() ? "" : "; ") + std::move(more); };
  const bool few = !s.us.empty() && s.us.size() < kMinForInterval;
  if (s.stop == Stop::max_time && !few)
    add(std::isfinite(s.rel_ci)
            ? fmt::format("stopped at max_time with an interval of {:.1f} %", 100 * s.rel_ci)
            : "stopped at max_time with a median of 0");
  if (few && s.stop != Stop::abandoned)
    add(fmt::format("{}too few samples ({}) for a 95 % interval",
                    s.stop == Stop::max_time ? "stopped at max_time with " : "", s.us.size()));
  if (s.stop == Stop::abandoned)
    add(fmt::format("{} {} samples: surely slower than the best", kAbandoned, s.us.size()));
  if (s.stop == Stop::no_time) add("every sample is negative or not finite");
  if (s.discarded > 0 && s.throttled == 0)
    add(fmt::format("{} throttled samples were taken again", s.discarded));
  if (s.throttled > 0)
    add(fmt::format("{} of {} samples are throttled, after {} others were discarded", s.throttled,
                    s.us.size(), s.discarded));
  return text;
}

}  // namespace warptune
