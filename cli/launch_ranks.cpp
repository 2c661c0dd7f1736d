// Starts a command again as several processes, the ranks of one run.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/ranks.h"
#include "harness/core/line_process.h"
#include "harness/core/print.h"
#include "harness/core/rank_identity.h"
#include "harness/core/stopwatch.h"

namespace warptune {
namespace {

constexpr double kGraceSeconds = 1;  // in which ranks end by themselves after another one

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

/// The arguments of this process.
std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

/// Signals that end this process, and the ends of children, wait for sigtimedwait() while this lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGCHLD);
    ::signal(SIGCHLD, SIG_DFL);  // where it is ignored there is nothing to wait for
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) sigaddset(&held_, signal);  // as under nohup
    }
    ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void release() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// The next signal, or 0 when the time is over.
  int wait(double seconds) const {
    const double whole = std::floor(seconds);
    const timespec time{.tv_sec = static_cast<time_t>(whole),
                        .tv_nsec = static_cast<long>((seconds - whole) * 1e9)};
    return std::max(::sigtimedwait(&held_, nullptr, &time), 0);
  }

 private:
  sigset_t held_{}, before_{};
};

/// The process of a rank. It dies with this process, however that ends.
class RankProcess {
 public:
  RankProcess(const RankIdentity& identity, const HeldSignals& signals)
      : rank_(identity.rank), errors_(rank_ == 0 ? -1 : ::memfd_create("errors", MFD_CLOEXEC)) {
    if (rank_ > 0 && errors_ < 0) fail("memfd_create");
    std::vector<std::string> words = own_arguments(), variables = environment_of(identity);
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const auto arguments = pointers_to(words), environment = pointers_to(variables);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before
    if (rank_ > 0) {
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
      ::dup2(errors_, STDERR_FILENO);
    }
    signals.release();
    ::execve(program.c_str(), arguments.data(), environment.data());
    ::_exit(127);
  }
  RankProcess(RankProcess&& other) noexcept
      : rank_(other.rank_),
        errors_(std::exchange(other.errors_, -1)),
        pid_(std::exchange(other.pid_, -1)),
        status_(other.status_) {}
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess() {
    end();
    if (errors_ >= 0) ::close(errors_);
  }

  int rank() const { return rank_; }
  /// Whether it still runs.
  bool runs() {
    if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
  }
  // Of one that has ended.
  bool failed() const { return status_ != 0; }
  int signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
  int code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 1; }
  /// What it wrote to stderr.
  std::string errors() const {
    std::ifstream in(fmt::format("/proc/self/fd/{}", errors_));
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  int rank_;
  int errors_;  // -1: those of this process
  pid_t pid_ = -1;
  int status_ = 0;
};

/// Why a rank ended the run, unless it has said so itself. Returns the exit code of the run.
int report(const RankProcess& cause, int ranks) {
  const std::string who = fmt::format("rank {} of {}", cause.rank(), ranks);
  if (cause.signal() != 0) {
    print_error("{} was ended by signal {} ({}), which ends the run", who, cause.signal(),
                ::strsignal(cause.signal()));
    return 1;
  }
  if (cause.code() == kLostAnotherRank) {
    print_error("{} has lost another rank", who);
    return 1;
  }
  if (cause.rank() > 0) {
    const std::string said = cause.errors();
    if (said.empty())
      print_error("{} ended with exit code {}", who, cause.code());
    else
      print(stderr, "{}", AsIs{said});
  }
  return cause.code();
}

/// The rank that failed first by itself and so ended the run. `killed`: the ranks that this process has
/// killed.
const RankProcess* cause_of(const std::vector<RankProcess>& ranks, const std::vector<bool>& killed) {
  const RankProcess* cause = nullptr;
  const auto weight = [](const RankProcess& rank) {  // the least says most
    return rank.signal() == 0 && rank.code() == kLostAnotherRank ? 2 : rank.rank() == 0 ? 0 : 1;
  };
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (!killed[i] && ranks[i].failed() && (!cause || weight(ranks[i]) < weight(*cause))) cause = &ranks[i];
  return cause;
}

}  // namespace

int launch_ranks(int ranks) {
  const HeldSignals signals;
  const std::string group =
      fmt::format("{}-{:x}", ::getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  std::vector<RankProcess> processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.emplace_back(RankIdentity{.rank = rank, .ranks = ranks, .group = group}, signals);
  std::vector<bool> killed(processes.size());
  std::optional<Stopwatch> since_failure;
  for (;;) {
    const int signal = signals.wait(since_failure ? 0.05 : 60);
    if (signal != 0 && signal != SIGCHLD) {  // also ends this process
      processes.clear();
      ::signal(signal, SIG_DFL);
      ::raise(signal);
      signals.release();
    }
    int running = 0;
    bool is_killed = false;
    for (RankProcess& process : processes) {
      if (process.runs()) {
        ++running;
      } else if (process.failed()) {
        if (!since_failure) since_failure.emplace();
        is_killed = is_killed || process.signal() != 0;
      }
    }
    if (running == 0) break;
    if (!since_failure || (!is_killed && since_failure->seconds() < kGraceSeconds)) continue;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      killed[i] = processes[i].runs();
      processes[i].end();
    }
    break;
  }
  const RankProcess* const cause = cause_of(processes, killed);
  return cause ? report(*cause, ranks) : 0;
}

}  // namespace warptune
