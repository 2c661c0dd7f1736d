#pragma once
// A weighted non-negative least-squares fit of times to the terms of time_parts(), in relative error (Lawson
// and Hanson, "Solving Least Squares Problems", 1974).
#include <optional>

#include "harness/select/launch_load.h"

namespace warptune {

class TimeFit {
 public:
  void add(const TimeParts& parts, double time_us, double weight);
  struct Estimate {
    double time_us = 0;
    double error = 0;  // weighted relative error over the fitted times
  };
  /// Evaluates the best fit over all subsets of terms without a negative coefficient.
  Estimate at(const TimeParts& parts) const;

 private:
  std::optional<TimeParts> solved(unsigned subset) const;

  std::array<TimeParts, kTimeParts> products_{};
  TimeParts target_{};
  double weights_ = 0;
};

}  // namespace warptune
