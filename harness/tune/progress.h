#pragma once
// How far a sweep is: a bar on a terminal, plain lines on a pipe.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

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

/// "1:02:03" or "02:03".
std::string clock_text(double seconds);

/// Thread-safe.
class Progress {
 public:
  /// Draws a bar where the stream is a terminal.
  Progress(std::FILE* stream, std::size_t total);
  /// A configuration of a problem is done. `best_us`: the best of the problem so far, NaN for none.
  void step(const std::string& problem, double best_us);
  /// A problem is done; prints one line about it.
  void finish(const std::string& line);
  /// Removes the bar.
  void clear();

 private:
  void draw(const std::string& problem, double best_us);

  std::mutex mutex_;
  std::FILE* stream_;
  bool terminal_;
  std::size_t done_ = 0, total_;
  Stopwatch watch_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace warptune
