#pragma once
// How far a sweep is: a bar on a terminal, plain lines on a pipe.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

namespace warptune {

/// May be told by several threads.
class Progress {
 public:
  /// A bar where the stream is a terminal.
  Progress(std::FILE* stream, std::size_t total);
  /// A configuration of a problem is done; `best_us`: the best of the problem so far, NaN for none.
  void step(const std::string& problem, double best_us);
  /// A problem is done, with one line to say about it.
  void finish(const std::string& line);
  /// Takes the bar away.
  void clear();

 private:
  void draw(const std::string& problem, double best_us);

  std::mutex mutex_;
  std::FILE* stream_;
  bool terminal_;
  std::size_t done_ = 0, total_;
  std::chrono::steady_clock::time_point start_, drawn_{};
};

/// "1:02:03" or "02:03".
std::string clock_text(double seconds);

}  // namespace warptune
