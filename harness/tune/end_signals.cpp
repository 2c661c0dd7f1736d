#include "harness/tune/end_signals.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>

namespace warptune {
namespace {

// A handler has no other way to its object. Handlers may only use what is lock-free.
std::atomic<int> handler_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void pass_on(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(handler_pipe.load(), &byte, 1);
  errno = error;
}

}  // namespace

EndSignals::EndSignals(std::function<void()> before_end) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe for signals: ") + ::strerror(errno));
  write_end_ = ends[1];
  watcher_ = std::jthread([this, pipe = ends[0], before_end = std::move(before_end)] {
    watch(pipe, before_end);
    ::close(pipe);
  });
  handler_pipe = write_end_;
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler != SIG_IGN)  // as under nohup
      ::sigaction(kSignals[i], &action, nullptr);
  }
}

EndSignals::~EndSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &previous_[i], nullptr);
  handler_pipe = -1;
  ::close(write_end_);  // the watcher reads the end of the pipe
}

void EndSignals::watch(int pipe, const std::function<void()>& before_end) {
  unsigned char signal = 0;
  ssize_t n = 0;
  do n = ::read(pipe, &signal, 1);
  while (n < 0 && errno == EINTR);
  if (n != 1) return;
  before_end();
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
  ::kill(::getpid(), signal);
}

}  // namespace warptune
