#include "harness/core/line_process.h"

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
#include <stdexcept>
#include <thread>

#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1 << 30, kErrorBytes = 4096;

std::runtime_error failed(const char* call) { return TextError("{}: {}", call, ::strerror(errno)); }

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

LineProcess::LineProcess(std::vector<std::string> words, std::vector<std::string> environment) {
  int ends[2], errors[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw failed("socketpair");
  if (::pipe2(errors, O_CLOEXEC) != 0) {
    for (const int end : ends) ::close(end);
    throw failed("pipe2");
  }
  socket_ = ends[0];
  error_pipe_ = errors[0];
  ::fcntl(error_pipe_, F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  auto arguments = pointers_to(words), variables = pointers_to(environment);
  const int error = ::posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(),
                                   environment.empty() ? environ : variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ::close(errors[1]);
  if (error == 0) return;
  pid_ = -1;
  why_not_started_ = fmt::format("cannot be started: {}", ::strerror(error));
}

LineProcess::~LineProcess() {
  ::close(socket_);
  if (error_pipe_ >= 0) ::close(error_pipe_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void LineProcess::send(std::string_view line) {
  unsent_.append(line) += '\n';
  send_some();
}

void LineProcess::send_some() {
  const ssize_t n = ::send(socket_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) unsent_.erase(0, static_cast<std::size_t>(n));
}

LineProcess::Answer LineProcess::next_line(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    if (const auto end = answer_.find('\n', searched_); end != std::string::npos) {
      Answer line{.text = answer_.substr(0, end)};
      answer_.erase(0, end + 1);
      searched_ = 0;
      return line;
    }
    searched_ = answer_.size();
    if (searched_ > kMaxAnswerBytes)
      return {Answer::Kind::ended, fmt::format("answered more than {} bytes", kMaxAnswerBytes)};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return {Answer::Kind::late, fmt::format("did not answer within {:.4g} seconds", seconds)};
    const short sends = unsent_.empty() ? 0 : POLLOUT;
    pollfd fds[] = {{socket_, static_cast<short>(POLLIN | sends), 0}, {error_pipe_, POLLIN, 0}};
    ::poll(fds, 2, static_cast<int>(std::min<long long>(left, 60000)));
    if (fds[1].revents) read_errors();
    if (fds[0].revents & POLLOUT) send_some();
    if (fds[0].revents & ~POLLOUT && !read_answer()) return ended();
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
  while ((n = ::read(error_pipe_, buffer.data(), buffer.size())) > 0) {
    errors_.append(buffer.data(), static_cast<std::size_t>(n));
    if (errors_.size() > 2 * kErrorBytes) errors_.erase(0, errors_.size() - kErrorBytes);
  }
  if (n == 0) {  // closed: poll() skips it
    ::close(error_pipe_);
    error_pipe_ = -1;
  }
}

/// Waits until the process that closed its output has ended, and says how.
LineProcess::Answer LineProcess::ended() {
  if (!why_not_started_.empty()) return {Answer::Kind::ended, why_not_started_};
  int status = 0;
  bool has_ended = false;
  for (int i = 0; i < 100 && pid_ > 0 && !has_ended; ++i) {
    has_ended = ::waitpid(pid_, &status, WNOHANG) == pid_;
    if (!has_ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (has_ended) pid_ = -1;
  if (error_pipe_ >= 0) read_errors();
  if (!has_ended) return {Answer::Kind::ended, "closed its output"};
  if (!WIFSIGNALED(status))
    return {Answer::Kind::ended, fmt::format("ended with exit code {}", WEXITSTATUS(status))};
  const int signal = WTERMSIG(status);
  return {Answer::Kind::ended, fmt::format("died of signal {} ({})", signal, ::strsignal(signal)),
          signal == SIGKILL};
}

}  // namespace warptune
