#include "harness/custom/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/line_process.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Why a child ended, and its status as waitpid() has it.
struct Ended {
  enum class Why : int { itself, time, stopped } why = Why::stopped;
  int status = 0;
};

std::runtime_error failed(const char* call) { return TextError("{}: {}", call, ::strerror(errno)); }

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw failed("pipe2");
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    ::close(read);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

/// In the child: its group and streams, then the work.
[[noreturn]] void be_child(const Pipe& output, const std::function<void()>& body) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output.write, STDOUT_FILENO);
  ::dup2(output.write, STDERR_FILENO);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // no program keeps a pipe of this process open
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  try {
    body();
  } catch (const std::exception& e) {
    ::dprintf(STDERR_FILENO, "%s\n", e.what());
    ::_exit(1);
  }
  ::_exit(0);
}

/// The process between this one and the child. It outlives both, so that it can clean up after either.
[[noreturn]] void be_guard(pid_t parent, const Pipe& output, const Pipe& result, const ChildBounds& bounds,
                           const std::function<void()>& body, const fs::path& folder) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);
  const pid_t child = ::fork();
  if (child == 0) be_child(output, body);
  ::close(output.write);
  Ended ended;
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounds.seconds));
  bool is_running = child > 0;
  if (is_running) ::setpgid(child, child);
  while (is_running) {
    const auto left = std::max<long long>(
        0, std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now()).count());
    const timespec wait{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    const int signal = ::sigtimedwait(&signals, nullptr, &wait);
    siginfo_t end_of_child{};  // its number stays taken until the group is killed
    if (signal == SIGCHLD &&
        ::waitid(P_PID, static_cast<id_t>(child), &end_of_child, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        end_of_child.si_pid == child) {
      ended.why = Ended::Why::itself;
      break;
    }
    if (signal < 0 && errno == EAGAIN) ended.why = Ended::Why::time;
    is_running = signal == SIGCHLD || (signal < 0 && errno == EINTR);
  }
  if (child > 0) {
    ::kill(-child, SIGKILL);
    ::waitpid(child, &ended.status, 0);
  }
  if (::getppid() != parent && !folder.empty()) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  [[maybe_unused]] const ssize_t told = ::write(result.write, &ended, sizeof ended);
  ::_exit(0);
}

/// Appends some of what the pipe holds. Returns what read() does: 0 at the end of the pipe.
ssize_t take(int pipe, std::string& text) {
  std::array<char, 1 << 16> buffer;
  const ssize_t n = ::read(pipe, buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  return n;
}

/// The first error that a compiler names, else the last line, which is Python's error.
std::string error_in(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  const auto error = text.find("error:");
  const auto begin = error == std::string::npos ? text.rfind('\n') + 1 : text.rfind('\n', error) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string why_failed(const Ended& ended, const ChildBounds& bounds, const std::string& output) {
  if (output.size() > bounds.output_bytes)
    return fmt::format("it printed more than {} bytes", bounds.output_bytes);
  if (ended.why == Ended::Why::time)
    return fmt::format("it ran for more than {:.4g} seconds", bounds.seconds);
  if (ended.why == Ended::Why::stopped) return "it was stopped";
  if (WIFSIGNALED(ended.status))
    return fmt::format("it died of signal {} ({})", WTERMSIG(ended.status),
                       ::strsignal(WTERMSIG(ended.status)));
  if (std::string error = error_in(output); !error.empty()) return error;
  return fmt::format("it ended with exit code {}", WEXITSTATUS(ended.status));
}

}  // namespace

void run_child(const std::string& what, const ChildBounds& bounds, const std::function<void()>& body,
               const fs::path& folder) {
  Pipe output, result;
  const pid_t self = ::getpid(), guard = ::fork();
  if (guard == 0) be_guard(self, output, result, bounds, body, folder);
  if (guard < 0) throw failed("fork");
  output.close_write();
  result.close_write();
  ::fcntl(output.read, F_SETFL, O_NONBLOCK);
  std::string text;
  Ended ended;
  bool is_open = true;
  for (;;) {
    pollfd ready[] = {{result.read, POLLIN, 0}, {is_open ? output.read : -1, POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) throw failed("poll");
    if (ready[1].revents) is_open = take(output.read, text) != 0;
    if (text.size() > bounds.output_bytes) ::kill(guard, SIGTERM);
    if (ready[0].revents) break;
  }
  [[maybe_unused]] const ssize_t got = ::read(result.read, &ended, sizeof ended);
  while (::waitpid(guard, nullptr, 0) < 0 && errno == EINTR) continue;
  while (text.size() <= bounds.output_bytes && take(output.read, text) > 0) continue;
  const bool is_ok =
      ended.why == Ended::Why::itself && ended.status == 0 && text.size() <= bounds.output_bytes;
  if (!is_ok) throw InputError("{}: {}", what, why_failed(ended, bounds, text));
}

void run_program(const std::string& what, const ChildBounds& bounds, std::vector<std::string> words,
                 const fs::path& temporary, std::span<const int> files) {
  const std::vector<char*> arguments = pointers_to(words);
  run_child(
      what, bounds,
      [&] {
        if (!temporary.empty()) ::setenv("TMPDIR", temporary.c_str(), 1);
        for (const int file : files) ::fcntl(file, F_SETFD, 0);
        const rlimit memory{bounds.memory_bytes, bounds.memory_bytes};
        if (bounds.memory_bytes > 0) ::setrlimit(RLIMIT_AS, &memory);
        ::execvp(arguments[0], arguments.data());
        throw TextError("'{}' cannot be started: {}", words[0], ::strerror(errno));
      },
      temporary);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "warptune-reference-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder for a reference");
  path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

MemoryFile::MemoryFile() : file_(::memfd_create("warptune-reference", MFD_CLOEXEC)) {
  if (file_ < 0) throw failed("memfd_create");
}
MemoryFile::~MemoryFile() {
  if (file_ >= 0) ::close(file_);
}
MemoryFile::MemoryFile(MemoryFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", file_); }

void MemoryFile::write(std::span<const std::byte> bytes) const {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::pwrite(file_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n <= 0 && errno != EINTR) throw failed("the memory for a reference");
    if (n > 0) at += static_cast<std::size_t>(n);
  }
}

bool MemoryFile::read(std::span<std::byte> bytes) const {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::pread(file_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n == 0 || (n < 0 && errno != EINTR)) return false;
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace warptune
