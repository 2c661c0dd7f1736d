#pragma once
// How long a configuration may take before it counts as hung.
#include "harness/measure/measurement.h"

namespace warptune {

struct DeadlineRule {
  double floor_seconds = 20;  // never less, so that a busy machine costs no rows
  double most_seconds = 30;   // never more; also the deadline while nothing of the problem is known
  double slowdown = 100;      // a configuration may be so much slower than the best so far
};

/// What the configurations of one problem have taught so far.
class Deadline {
 public:
  explicit Deadline(DeadlineRule rule) : rule_(rule) {}
  /// A configuration came out right after so many seconds.
  void learn(const Measurement& measurement, double seconds);
  double seconds() const;

 private:
  DeadlineRule rule_;
  double longest_ = 0;        // of the right ones
  double best_us_ = 0;        // 0: none yet
  double best_launches_ = 0;  // timed launches of the best
};

}  // namespace warptune
