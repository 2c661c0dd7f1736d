#pragma once
// Undoes something outside the program when a signal ends it.
#include <signal.h>

#include <array>
#include <functional>
#include <thread>

namespace warptune {

/// While this lives, SIGINT, SIGTERM and SIGHUP first run a function, on a thread of this object and not in a
/// signal handler, and then end the program as usual. One object at a time.
class EndSignals {
 public:
  explicit EndSignals(std::function<void()> before_end);
  ~EndSignals();
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  void watch(int pipe, const std::function<void()>& before_end);

  int write_end_ = -1;
  std::array<struct sigaction, kSignals.size()> previous_{};
  std::jthread watcher_;
};

}  // namespace warptune
