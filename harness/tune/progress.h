#pragma once
// How far a sweep is: a bar on a terminal, plain lines on a pipe.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

#include "harness/core/stopwatch.h"

namespace warptune {

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
