#include "harness/text/line_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1 << 30, kErrorBytes = 4096;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The last line with a text: of an exception in Python, its message.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return brief(text.substr(text.rfind('\n') + 1));
}

}  // namespace

LineProcess::LineProcess(std::string name, std::vector<std::string> words,
                         std::vector<std::string> environment)
    : name_(std::move(name)) {
  int ends[2], errors[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("no socket to '{}': {}", name_, ::strerror(errno)));
  if (::pipe2(errors, O_CLOEXEC) != 0) {
    for (const int end : ends) ::close(end);
    throw std::runtime_error(fmt::format("no pipe from '{}': {}", name_, ::strerror(errno)));
  }
  socket_ = ends[0];
  errors_ = errors[0];
  ::fcntl(errors_, F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  auto arguments = pointers_to(words), variables = pointers_to(environment);
  const int error =
      ::posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ::close(errors[1]);
  if (error == 0) return;
  ::close(socket_);
  ::close(errors_);
  throw InputError(fmt::format("'{}' cannot be started: {}", name_, ::strerror(error)));
}

LineProcess::~LineProcess() {
  ::close(socket_);
  ::close(errors_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

std::string LineProcess::converse(const std::string& sent, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::size_t at = 0;
  for (;;) {
    if (const auto end = answer_.find('\n', searched_); end != std::string::npos) {
      std::string line = answer_.substr(0, end);
      answer_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = answer_.size();
    if (searched_ > kMaxAnswerBytes)
      throw InputError(fmt::format("'{}' answered more than {} bytes", name_, kMaxAnswerBytes));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw InputError(fmt::format("'{}' did not answer within {:.4g} seconds", name_, seconds));
    const short sends = at < sent.size() ? POLLOUT : 0;
    pollfd fds[] = {{socket_, static_cast<short>(POLLIN | sends), 0}, {errors_, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(std::min<long long>(left, 60000)));
    if (fds[1].revents) read_errors();
    if (fds[0].revents & POLLOUT) {
      const ssize_t n = ::send(socket_, sent.data() + at, sent.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) at += static_cast<std::size_t>(n);
    }
    if (fds[0].revents & ~POLLOUT && !read_answer()) fail_ended();
  }
}

bool LineProcess::read_answer() {
  std::array<char, 1 << 16> buffer;
  const ssize_t n = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n > 0) answer_.append(buffer.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

void LineProcess::read_errors() {
  std::array<char, 4096> buffer;
  ssize_t n;
  while ((n = ::read(errors_, buffer.data(), buffer.size())) > 0) {
    last_errors_.append(buffer.data(), static_cast<std::size_t>(n));
    if (last_errors_.size() > 2 * kErrorBytes) last_errors_.erase(0, last_errors_.size() - kErrorBytes);
  }
  if (n == 0) {  // closed: poll() skips it
    ::close(errors_);
    errors_ = -1;
  }
}

/// Waits until the process that closed its output has ended, and says how.
void LineProcess::fail_ended() {
  int status = 0;
  bool has_ended = false;
  for (int i = 0; i < 100 && pid_ > 0 && !has_ended; ++i) {
    has_ended = ::waitpid(pid_, &status, WNOHANG) == pid_;
    if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (has_ended) pid_ = -1;
  if (errors_ >= 0) read_errors();
  std::string how = "closed its output";
  if (has_ended && WIFSIGNALED(status))
    how = fmt::format("died of signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  else if (has_ended)
    how = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (const std::string line = last_line(last_errors_); !line.empty()) how += ": " + line;
  throw InputError(fmt::format("'{}' {}", name_, how));
}

}  // namespace warptune
