#include "harness/tune/deadline.h"

#include <algorithm>

namespace warptune {
namespace {
constexpr double kMargin = 3;        // over the longest that was right: checks take as long for all of them
constexpr double kLeastSamples = 3;  // launches of a sample, and the two of them that come before timing
}  // namespace

void Deadline::learn(const Measurement& m, double seconds) {
  if (m.status != Status::ok) return;
  longest_ = std::max(longest_, seconds);
  if (best_us_ > 0 && m.time_us >= best_us_) return;
  best_us_ = m.time_us;
  best_launches_ = kLeastSamples * m.launches_per_sample;
}

double Deadline::seconds() const {
  if (best_us_ == 0) return rule_.most_seconds;
  const double sampling = rule_.slowdown * best_us_ * 1e-6 * best_launches_;
  return std::min(rule_.most_seconds, std::max(rule_.floor_seconds, kMargin * longest_ + sampling));
}

}  // namespace warptune
