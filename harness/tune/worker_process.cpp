#include "harness/tune/worker_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/stopwatch.h"

namespace warptune {
using Json = nlohmann::json;
using Kind = LineProcess::Answer::Kind;
namespace {

constexpr std::size_t kStderrTail = 400;
constexpr double kRestartSeconds = 60;
constexpr int kTries = 3;  // of a job whose worker someone else killed

std::vector<std::string> worker_command(const std::filesystem::path& program, const std::string& device,
                                        const KernelFiles& kernels) {
  std::vector<std::string> words = {program.string(), "worker", "--device", device};
  for (const auto& file : kernels.paths) words.insert(words.end(), {"--kernels", file.string()});
  if (!kernels.paths.empty())
    words.insert(words.end(), {"--kernels-hash", kernels.hash, "--reference-seconds",
                               fmt::format("{}", kernels.reference_seconds)});
  return words;
}

/// A field of a message that may lack it.
std::string text_or(const Json& message, const char* name, const char* otherwise) {
  const auto it = message.find(name);
  return it != message.end() && it->is_string() ? it->get<std::string>() : otherwise;
}
bool is_true(const Json& message, const char* name) {
  return message.contains(name) && message[name] == true;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::filesystem::path& program, std::string device,
                             const KernelFiles& kernels)
    : words_(worker_command(program, device, kernels)), device_(std::move(device)) {}

void WorkerProcess::end_worker() {
  process_.reset();
  fresh_ = true;
}

WorkerProcess::Reply WorkerProcess::receive(double seconds) {
  const Stopwatch watch;
  for (;;) {
    LineProcess::Answer answer = process_->next_line(seconds - watch.seconds());
    if (answer.kind == Kind::line) {
      auto message = message_of(answer.text);
      if (message) return {Kind::line, std::move(*message), {}};
      continue;  // printed by a library
    }
    std::string why = "the worker " + answer.text;
    if (const std::string& errors = process_->errors(); !errors.empty())
      why += ": " + errors.substr(errors.size() - std::min(errors.size(), kStderrTail));
    killed_ = answer.is_killed;
    end_worker();
    return {answer.kind, {}, std::move(why)};
  }
}

Json WorkerProcess::expect(const std::string& type, double seconds) {
  Reply reply = receive(seconds);
  if (reply.kind == Kind::late)
    throw std::runtime_error(
        fmt::format("device '{}' did not answer within {:.0f} seconds", device_, seconds));
  if (reply.kind == Kind::ended) throw std::runtime_error(reply.why);
  const std::string given = reply.message.at("type");
  if (given == "error") {
    end_worker();
    const std::string message = text_or(reply.message, "message", "");
    if (is_true(reply.message, "input")) throw InputError(message);
    throw std::runtime_error(fmt::format("device '{}': {}", device_, message));
  }
  if (given != type)
    throw std::runtime_error(fmt::format("a worker answered '{}' instead of '{}'", brief(given), type));
  return std::move(reply.message);
}

void WorkerProcess::send_peaks() {
  Json json = to_json(*peaks_);
  json["type"] = "set_peaks";
  send(json);
}

DeviceFacts WorkerProcess::start(double seconds) {
  end_worker();
  process_.emplace(words_);
  const DeviceFacts facts = facts_of(expect("hello", seconds));
  if (peaks_) send_peaks();
  return facts;
}

/// Calls `attempt` again if someone else killed the worker, three times in all.
template <class Attempt>
auto WorkerProcess::retried(Attempt&& attempt) {
  for (int tries = 1;; ++tries) try {
      killed_ = false;
      if (!process_) start(kRestartSeconds);
      auto result = attempt();
      if (!killed_ || tries == kTries) return result;
    } catch (const InputError&) {
      throw;
    } catch (const std::exception&) {
      if (!killed_ || tries == kTries) throw;
    }
}

DeviceFacts WorkerProcess::measure_peaks(double seconds) {
  return retried([&] {
    send({{"type", "measure_peaks"}});
    peaks_ = facts_of(expect("facts", seconds));
    return *peaks_;
  });
}

LaunchFloors WorkerProcess::measure_launch_floors(double seconds) {
  return retried([&] {
    send({{"type", "measure_launch_floors"}});
    return launch_floors_of(expect("launch_floors", seconds));
  });
}

void WorkerProcess::set_peaks(const DeviceFacts& facts) {
  peaks_ = facts;
  if (process_) send_peaks();
}

void WorkerProcess::take_news(const Json& answer) {
  if (answer.contains("peaks")) peaks_ = raised_ = facts_of(answer.at("peaks"));
  if (answer.contains("stages")) stages_ += stage_times_of(answer.at("stages"));
}

Measurement WorkerProcess::run(const Job& job, double seconds, const std::function<void()>& meanwhile) {
  Measurement measurement = retried([&] { return run_once(job, seconds, meanwhile); });
  if (killed_)
    measurement.detail += fmt::format("; {} workers in a row: out of memory, or someone killed them", kTries);
  return measurement;
}

Measurement WorkerProcess::run_once(const Job& job, double seconds, const std::function<void()>& meanwhile) {
  fresh_ = false;
  send(to_json(job));
  if (meanwhile) meanwhile();
  const auto [kind, json, why] = receive(seconds);
  if (kind == Kind::late)
    return {.status = Status::timeout, .detail = fmt::format("no result within {:.4g} seconds", seconds)};
  if (kind == Kind::ended) return {.status = Status::crash, .detail = why};
  if (json.at("type") == "error" && is_true(json, "input")) {
    end_worker();
    throw InputError(text_or(json, "message", ""));
  }
  try {
    if (json.at("type") != "result")
      throw ProtocolError(text_or(json, "message", "the worker answered something else"));
    Measurement measurement = measurement_of(json);
    take_news(json);
    if (is_true(json, "lost")) end_worker();
    return measurement;
  } catch (const ProtocolError& e) {  // nothing that it says later can be trusted
    end_worker();
    return {.status = Status::crash, .detail = e.what()};
  }
}

template <class Read>
auto WorkerProcess::answer(const Json& job, const char* type, double seconds, Read&& read) {
  return retried([&] {
    fresh_ = false;
    send(job);
    const auto [kind, json, why] = receive(seconds);
    if (kind == Kind::late) throw std::runtime_error(fmt::format("no result within {:.4g} seconds", seconds));
    if (kind == Kind::ended) throw std::runtime_error(why);
    try {
      if (json.at("type") != type) {
        const std::string message = text_or(json, "message", "the worker answered something else");
        throw ProtocolError(text_or(json, "detail", message.c_str()));
      }
      auto times = read(json);
      take_news(json);
      return times;
    } catch (const ProtocolError&) {
      end_worker();
      throw;
    }
  });
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
