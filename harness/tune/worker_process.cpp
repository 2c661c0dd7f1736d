#include "harness/tune/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"

extern char** environ;

namespace warptune {
using Json = nlohmann::json;
namespace {

constexpr std::size_t kStderrTail = 400;
constexpr double kStartSeconds = 60;
constexpr int kTries = 3;  // of a job whose worker someone else killed

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw std::runtime_error(fmt::format("no pipe to a worker: {}", ::strerror(errno)));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_fd(read);
    close_fd(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

int taken(int& fd) { return std::exchange(fd, -1); }

/// A field of a message that may lack it.
std::string text_or(const Json& message, const char* name, const char* otherwise) {
  const auto it = message.find(name);
  return it != message.end() && it->is_string() ? it->get<std::string>() : otherwise;
}
bool is_true(const Json& message, const char* name) {
  return message.contains(name) && message[name] == true;
}

}  // namespace

WorkerProcess::WorkerProcess(std::filesystem::path program, std::string device, KernelFiles kernels)
    : program_(std::move(program)), device_(std::move(device)), kernels_(std::move(kernels)) {
  ::signal(SIGPIPE, SIG_IGN);  // writing to a dead worker must not end this process
}

WorkerProcess::~WorkerProcess() { stop(); }

void WorkerProcess::spawn() {
  Pipe in, out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.read, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  std::vector<std::string> words = {program_.string(), "worker", "--device", device_};
  for (const auto& file : kernels_.paths) words.insert(words.end(), {"--kernels", file.string()});
  if (!kernels_.paths.empty())
    words.insert(words.end(), {"--kernels-hash", kernels_.hash, "--reference-seconds",
                               fmt::format("{}", kernels_.reference_seconds)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, program_.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    throw std::runtime_error(fmt::format("no worker '{}': {}", program_.string(), ::strerror(error)));
  }
  in_ = taken(in.write);
  out_ = taken(out.read);
  err_ = taken(err.read);
  ::fcntl(err_, F_SETFL, O_NONBLOCK);
  text_.clear();
  stderr_.clear();
  fresh_ = true;
}

void WorkerProcess::stop() {
  close_fd(in_);
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  close_fd(out_);
  close_fd(err_);
}

void WorkerProcess::replace() {
  stop();
  fresh_ = true;
}

bool WorkerProcess::send(const Json& json) {
  const std::string line = json.dump() + '\n';
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(in_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

WorkerProcess::Wait WorkerProcess::receive(Json& json, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    if (const auto end = text_.find('\n'); end != std::string::npos) {
      auto message = message_of(std::string_view(text_).substr(0, end));
      text_.erase(0, end + 1);
      if (!message) continue;  // printed by a library
      json = std::move(*message);
      return Wait::message;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Wait::timeout;
    pollfd fds[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    if (::poll(fds, 2, static_cast<int>(std::min<long long>(left, 60000))) < 0 && errno != EINTR)
      return Wait::dead;
    char buffer[4096];
    if (fds[1].revents) {
      const ssize_t n = ::read(err_, buffer, sizeof buffer);
      if (n > 0) stderr_.append(buffer, static_cast<std::size_t>(n));
      if (n == 0) close_fd(err_);
      if (stderr_.size() > 8 * kStderrTail) stderr_.erase(0, stderr_.size() - 4 * kStderrTail);
    }
    if (fds[0].revents) {
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) return Wait::dead;
    }
  }
}

/// Waits until a worker that closed its output has ended, and describes how it ended.
std::string WorkerProcess::how_it_ended() {
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    ended = ::waitpid(pid_, &status, WNOHANG) == pid_;
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (ended) pid_ = -1;
  killed_ = ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  char buffer[4096];
  for (ssize_t n; err_ >= 0 && (n = ::read(err_, buffer, sizeof buffer)) > 0;)
    stderr_.append(buffer, static_cast<std::size_t>(n));
  std::string text = "the worker closed its answers";
  if (ended && WIFSIGNALED(status))
    text = fmt::format("the worker died of signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  else if (ended)
    text = fmt::format("the worker ended with exit code {}", WEXITSTATUS(status));
  if (stderr_.size() > kStderrTail) stderr_.erase(0, stderr_.size() - kStderrTail);
  if (!stderr_.empty()) text += ": " + stderr_;
  stop();
  return text;
}

Json WorkerProcess::expect(const std::string& type, double seconds) {
  Json json;
  switch (receive(json, seconds)) {
    case Wait::timeout:
      stop();
      throw std::runtime_error(
          fmt::format("device '{}' did not answer within {:.0f} seconds", device_, seconds));
    case Wait::dead:
      throw std::runtime_error(how_it_ended());
    case Wait::message:
      break;
  }
  const std::string given = json.at("type");
  if (given == "error") {
    const std::string message = text_or(json, "message", "");
    const bool input = is_true(json, "input");
    stop();
    if (input) throw InputError(message);
    throw std::runtime_error(fmt::format("device '{}': {}", device_, message));
  }
  if (given != type)
    throw std::runtime_error(fmt::format("a worker answered '{}' instead of '{}'", brief(given), type));
  return json;
}

DeviceFacts WorkerProcess::start(double seconds) {
  stop();
  spawn();
  const DeviceFacts facts = facts_of(expect("hello", seconds));
  if (peaks_) {
    Json json = to_json(*peaks_);
    json["type"] = "set_peaks";
    send(json);
  }
  return facts;
}

DeviceFacts WorkerProcess::measure_peaks(double seconds) {
  for (int tries = 1;; ++tries) try {
      if (pid_ < 0) start(kStartSeconds);
      killed_ = false;
      send({{"type", "measure_peaks"}});
      peaks_ = facts_of(expect("facts", seconds));
      return *peaks_;
    } catch (const std::exception&) {
      if (!killed_ || tries == kTries) throw;
    }
}

LaunchFloors WorkerProcess::measure_launch_floors(double seconds) {
  send({{"type", "measure_launch_floors"}});
  return launch_floors_of(expect("launch_floors", seconds));
}

void WorkerProcess::set_peaks(const DeviceFacts& facts) {
  peaks_ = facts;
  if (pid_ < 0) return;
  Json json = to_json(facts);
  json["type"] = "set_peaks";
  send(json);
}

void WorkerProcess::take_news(const Json& answer) {
  if (answer.contains("peaks")) peaks_ = raised_ = facts_of(answer.at("peaks"));
}

Measurement WorkerProcess::run(const Job& job, double seconds) {
  for (int tries = 1;; ++tries) {
    killed_ = false;
    Measurement measurement;
    try {
      measurement = run_once(job, seconds);
    } catch (const InputError&) {
      throw;
    } catch (const std::exception&) {  // while it started
      if (!killed_ || tries == kTries) throw;
      continue;
    }
    if (!killed_) return measurement;
    if (tries == kTries) {
      measurement.detail +=
          fmt::format("; {} workers in a row: out of memory, or someone killed them", kTries);
      return measurement;
    }
  }
}

Measurement WorkerProcess::run_once(const Job& job, double seconds) {
  if (pid_ < 0) start(kStartSeconds);
  fresh_ = false;
  Json json;
  const Wait wait = send(to_json(job)) ? receive(json, seconds) : Wait::dead;
  if (wait == Wait::timeout) {
    replace();
    return {.status = Status::timeout, .detail = fmt::format("no result within {:.4g} seconds", seconds)};
  }
  if (wait == Wait::dead) {
    fresh_ = true;
    return {.status = Status::crash, .detail = how_it_ended()};
  }
  if (json.at("type") == "error" && is_true(json, "input")) {
    stop();
    throw InputError(text_or(json, "message", ""));
  }
  try {
    if (json.at("type") != "result")
      throw ProtocolError(text_or(json, "message", "the worker answered something else"));
    Measurement measurement = measurement_of(json);
    take_news(json);
    if (is_true(json, "lost")) replace();
    return measurement;
  } catch (const ProtocolError& e) {  // nothing that it says later can be trusted
    replace();
    return {.status = Status::crash, .detail = e.what()};
  }
}

template <class Read>
auto WorkerProcess::answer(const Json& job, const char* type, double seconds, Read&& read) {
  for (int tries = 1;; ++tries) {
    if (pid_ < 0) start(kStartSeconds);
    fresh_ = killed_ = false;
    Json json;
    const Wait wait = send(job) ? receive(json, seconds) : Wait::dead;
    if (wait == Wait::message && json.at("type") == type) try {
        auto times = read(json);
        take_news(json);
        return times;
      } catch (const ProtocolError&) {
        replace();
        throw;
      }
    fresh_ = true;
    if (wait == Wait::dead) {
      const std::string why = how_it_ended();
      if (killed_ && tries < kTries) continue;
      throw std::runtime_error(why);
    }
    stop();
    if (wait == Wait::timeout)
      throw std::runtime_error(fmt::format("no result within {:.0f} seconds", seconds));
    const std::string message = text_or(json, "message", "the worker answered something else");
    throw std::runtime_error(text_or(json, "detail", message.c_str()));
  }
}

std::vector<FinalistTimes> WorkerProcess::run(const FinalistsJob& job, double seconds) {
  return answer(to_json(job), "finalists", seconds, [&](const Json& json) {
    auto times = finalist_times_of(json);
    if (times.size() != job.finalists.size())
      throw ProtocolError(
          fmt::format("a worker timed {} finalists of {}", times.size(), job.finalists.size()));
    return times;
  });
}

StepTimes WorkerProcess::run(const StepJob& job, double seconds) {
  return answer(to_json(job), "step", seconds, step_times_of);
}

}  // namespace warptune
