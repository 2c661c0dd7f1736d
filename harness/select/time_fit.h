#pragma once
// A weighted least-squares fit of times to what they are made of: relative errors count, and no part is
// negative (Lawson and Hanson, "Solving Least Squares Problems", 1974).
#include <optional>

#include "harness/select/launch_load.h"

namespace warptune {

class TimeFit {
 public:
  void add(const TimeParts& parts, double time_us, double weight);
  struct Estimate {
    double time_us = 0;
    double error = 0;  // relative, of the times that it was made from, near ones most
  };
  /// The best of the fits of every subset of the parts that has no negative coefficient.
  Estimate at(const TimeParts& parts) const;

 private:
  std::optional<TimeParts> solved(unsigned subset) const;

  std::array<TimeParts, kTimeParts> products_{};
  TimeParts target_{};
  double weights_ = 0;
};

}  // namespace warptune
