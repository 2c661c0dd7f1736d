#pragma once
// Time that passes: measured, or limited.
#include <algorithm>
#include <chrono>
#include <cstddef>

namespace warptune {

/// Seconds since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A time that runs from its construction on; without seconds it never ends.
class TimeLimit {
 public:
  explicit TimeLimit(double seconds = 0) : seconds_(seconds > 0 ? seconds : kForever) {}
  bool is_over() const { return left() <= 0; }
  double left() const { return seconds_ - watch_.seconds(); }
  /// The part of the time that is left for one of several equal pieces of work.
  TimeLimit part_of(std::size_t pieces) const {
    return TimeLimit(std::max(left(), kLeast) / static_cast<double>(pieces));
  }

 private:
  static constexpr double kForever = 1e18, kLeast = 1e-9;
  double seconds_;
  Stopwatch watch_;
};

}  // namespace warptune
