#include "harness/tune/worker_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/rank_identity.h"
#include "harness/core/stopwatch.h"

namespace warptune {
using Json = nlohmann::json;
using Kind = LineProcess::Answer::Kind;
namespace {

constexpr double kRestartSeconds = 60;
constexpr int kTries = 3;              // attempts at a job whose process someone else killed
constexpr double kTurnSeconds = 0.02;  // to wait for one rank before looking at the next
constexpr double kFailureSeconds = 5;  // for the other ranks to answer after one has failed
constexpr std::size_t kStderrTail = 400;

std::vector<std::string> worker_command(const std::filesystem::path& program, const KernelFiles& kernels) {
  std::vector<std::string> words = {program.string(), "worker"};
  for (const auto& file : kernels.paths) words.insert(words.end(), {"--kernels", file.string()});
  if (!kernels.paths.empty())
    words.insert(words.end(), {"--kernels-hash", kernels.hash, "--reference-seconds",
                               fmt::format("{}", kernels.reference_seconds)});
  return words;
}

/// A name that no other group has.
std::string new_group_name() { return fmt::format("{}-{:08x}", ::getpid(), std::random_device{}()); }

/// A message of a process, or why there is none: it is late, or has ended.
struct Reply {
  Kind kind = Kind::line;
  Json message = {};
  std::string why = {};
  bool is_killed = false;  // by a SIGKILL of someone else
};

/// The next message. Skips lines that a library prints.
Reply receive_from(LineProcess& process, double seconds) {
  const Stopwatch watch;
  for (;;) {
    const LineProcess::Answer answer = process.next_line(seconds - watch.seconds());
    if (answer.kind == Kind::line) {
      if (auto message = message_of(answer.text)) return {.message = std::move(*message)};
      continue;
    }
    std::string why = "the worker " + answer.text;
    if (const std::string& errors = process.errors(); !errors.empty())
      why += ": " + errors.substr(errors.size() - std::min(errors.size(), kStderrTail));
    return {.kind = answer.kind, .why = std::move(why), .is_killed = answer.is_killed};
  }
}

/// A field of a message that may lack it.
std::string text_or(const Json& message, const char* name, const char* otherwise) {
  const auto it = message.find(name);
  return it != message.end() && it->is_string() ? it->get<std::string>() : otherwise;
}
bool is_true(const Json& message, const char* name) {
  return message.contains(name) && message[name] == true;
}
bool has_failed(const Json& message) { return text_or(message, "status", "ok") != "ok"; }
/// Whether the process ends with this message.
bool is_last(const Json& message) { return is_true(message, "lost") || message.at("type") == "error"; }

}  // namespace

WorkerGroup::WorkerGroup(const std::filesystem::path& program, std::vector<std::string> devices,
                         const KernelFiles& kernels)
    : devices_(std::move(devices)), words_(worker_command(program, kernels)) {}

void WorkerGroup::end() {
  processes_.clear();
  fresh_ = true;
}

void WorkerGroup::send(const Json& message) {
  for (LineProcess& process : processes_) process.send(message.dump());
}

std::string WorkerGroup::named(std::size_t rank, const std::string& text) const {
  return devices_.size() == 1 ? text : fmt::format("rank {}: {}", rank, text);
}

/// A rank that has died, has lost its device or fails alone ends the group: the others wait for it.
WorkerGroup::Replies WorkerGroup::receive(double seconds) {
  const Stopwatch watch;
  const std::size_t ranks = processes_.size();
  const double turn = ranks == 1 ? std::numeric_limits<double>::infinity() : kTurnSeconds;
  double limit = seconds;
  std::optional<std::size_t> failed;
  ByRank<Json> messages;
  const auto alone = [&](std::size_t rank) {
    end();
    return Replies{.kind = Kind::line, .messages = {{rank, messages.at(rank)}}};
  };
  const auto none = [&](Kind kind, std::size_t rank, std::string why) {
    end();
    return Replies{.kind = kind, .why = std::move(why), .rank = rank};
  };
  for (std::size_t rank = 0; messages.size() < ranks; rank = (rank + 1) % ranks) {
    if (messages.contains(rank)) continue;
    Reply reply = receive_from(processes_[rank], std::min(limit - watch.seconds(), turn));
    if (reply.kind == Kind::line) {
      const Json& message = messages[rank] = std::move(reply.message);
      if (is_last(message)) return alone(rank);
      if (failed || !has_failed(message)) continue;
      failed = rank;
      limit = std::min(limit, watch.seconds() + kFailureSeconds);
    } else if (reply.kind == Kind::ended) {
      killed_ = reply.is_killed;
      return none(reply.kind, rank, named(rank, reply.why));
    } else if (watch.seconds() >= limit) {
      if (failed) return alone(*failed);
      const std::string why = fmt::format("no result within {:.4g} seconds", seconds);
      // Where no rank has answered, it is not known for which one the others wait.
      return none(reply.kind, rank, messages.empty() ? why : named(rank, why));
    }
  }
  return {.kind = Kind::line, .messages = std::move(messages)};
}

WorkerGroup::ByRank<Json> WorkerGroup::expect(const std::string& type, double seconds) {
  Replies replies = receive(seconds);
  if (replies.kind == Kind::late)
    throw TextError("device '{}' did not answer within {:.0f} seconds", devices_[replies.rank], seconds);
  if (replies.kind == Kind::ended) throw std::runtime_error(replies.why);
  for (const auto& [rank, json] : replies.messages) {
    const std::string given = json.at("type");
    if (given == "error") {
      const std::string message = text_or(json, "message", "");
      if (is_true(json, "input")) throw InputError(message);
      throw TextError("device '{}': {}", devices_[rank], message);
    }
    if (given != type) throw TextError("a worker answered '{}' instead of '{}'", brief(given), type);
  }
  return std::move(replies.messages);
}

void WorkerGroup::send_peaks() {
  Json json = to_json(*peaks_);
  json["type"] = "set_peaks";
  send(json);
}

DeviceFacts WorkerGroup::start(double seconds) {
  end();
  const std::string group = new_group_name();
  for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
    std::vector<std::string> words = words_;
    words.insert(words.end(), {"--device", devices_[rank]});
    processes_.emplace_back(std::move(words), environment_of({.rank = static_cast<int>(rank),
                                                              .ranks = static_cast<int>(devices_.size()),
                                                              .group = group}));
  }
  DeviceFacts first;
  ids_.clear();
  for (const auto& [rank, json] : expect("hello", seconds)) {
    const DeviceFacts facts = facts_of(json);
    if (rank == 0) first = facts;
    if (facts.name != first.name || facts.arch != first.arch)
      throw InputError("device '{}' is {} ({}) and '{}' is {} ({})", devices_[0], first.name, first.arch,
                       devices_[rank], facts.name, facts.arch);
    ids_.push_back(facts.id);
  }
  if (peaks_) send_peaks();
  return first;
}

/// Calls `attempt` again if someone else killed a process, three times in all.
template <class Attempt>
auto WorkerGroup::retried(Attempt&& attempt) {
  for (int tries = 1;; ++tries) try {
      killed_ = false;
      if (processes_.empty()) start(kRestartSeconds);
      auto result = attempt();
      if (!killed_ || tries == kTries) return result;
    } catch (const InputError&) {
      throw;
    } catch (const std::exception&) {
      if (!killed_ || tries == kTries) throw;
    }
}

DeviceFacts WorkerGroup::measure_peaks(double seconds) {
  return retried([&] {
    send({{"type", "measure_peaks"}});
    peaks_ = facts_of(expect("facts", seconds).at(0));
    send_peaks();
    return *peaks_;
  });
}

LaunchFloors WorkerGroup::measure_launch_floors(double seconds) {
  return retried([&] {
    send({{"type", "measure_launch_floors"}});
    return launch_floors_of(expect("launch_floors", seconds).at(0));
  });
}

void WorkerGroup::set_peaks(const DeviceFacts& facts) {
  peaks_ = facts;
  if (!processes_.empty()) send_peaks();
}

void WorkerGroup::take_news(const Json& answer) {
  if (answer.contains("peaks")) peaks_ = raised_ = facts_of(answer.at("peaks"));
  if (answer.contains("stages")) stages_ += stage_times_of(answer.at("stages"));
}

template <class Read>
auto WorkerGroup::read_all(const ByRank<Json>& messages, const char* type, Read&& read) const {
  ByRank<decltype(read(Json()))> values;
  for (const auto& [rank, json] : messages) try {
      if (json.at("type") != type) {
        const std::string message = text_or(json, "message", "the worker answered something else");
        throw ProtocolError(text_or(json, "detail", message.c_str()));
      }
      values.emplace(rank, read(json));
    } catch (const ProtocolError& e) {
      throw ProtocolError(named(rank, e.what()));
    }
  return values;
}

/// The measurement of rank 0, whose time is that of the slowest rank, or the worst failure.
template <class Answer, class Part>
Measurement WorkerGroup::worst_of(const ByRank<Answer>& answers, Part&& part) const {
  ByRank<Measurement> measurements;
  for (const auto& [rank, answer] : answers) measurements.emplace(rank, part(answer));
  const auto status = [](const auto& entry) { return entry.second.status; };
  const auto at = std::ranges::max_element(measurements, {}, status);
  Measurement worst = at->second;
  const auto says_the_same = [&](const auto& entry) { return entry.second.detail == worst.detail; };
  const bool is_common =
      measurements.size() == devices_.size() && std::ranges::all_of(measurements, says_the_same);
  if (worst.status != Status::ok && !is_common) worst.detail = named(at->first, worst.detail);
  return worst;
}

Measurement WorkerGroup::run(const Job& job, double seconds, const std::function<void()>& meanwhile) {
  Measurement measurement = retried([&] { return run_once(job, seconds, meanwhile); });
  if (killed_)
    measurement.detail += fmt::format("; {} workers in a row: out of memory, or someone killed them", kTries);
  return measurement;
}

Measurement WorkerGroup::run_once(const Job& job, double seconds, const std::function<void()>& meanwhile) {
  fresh_ = false;
  send(to_json(job));
  if (meanwhile) meanwhile();
  const Replies replies = receive(seconds);
  if (replies.kind == Kind::late) return {.status = Status::timeout, .detail = replies.why};
  if (replies.kind == Kind::ended) return {.status = Status::crash, .detail = replies.why};
  for (const auto& [rank, json] : replies.messages)
    if (json.at("type") == "error" && is_true(json, "input")) throw InputError(text_or(json, "message", ""));
  try {
    const auto measurements = read_all(replies.messages, "result", measurement_of);
    take_news(replies.messages.begin()->second);
    return worst_of(measurements, std::identity());
  } catch (const ProtocolError& e) {  // nothing that they say later can be trusted
    end();
    return {.status = Status::crash, .detail = e.what()};
  }
}

template <class Read>
auto WorkerGroup::answers(const Json& job, const char* type, double seconds, Read&& read) {
  return retried([&] {
    fresh_ = false;
    send(job);
    const Replies replies = receive(seconds);
    if (replies.kind != Kind::line) throw std::runtime_error(replies.why);
    try {
      auto values = read_all(replies.messages, type, read);
      take_news(replies.messages.begin()->second);
      return values;
    } catch (const ProtocolError&) {
      end();
      throw;
    }
  });
}

std::vector<FinalistTimes> WorkerGroup::run(const FinalistsJob& job, double seconds) {
  const auto times = answers(to_json(job), "finalists", seconds, [&](const Json& json) {
    auto list = finalist_times_of(json);
    if (list.size() != job.finalists.size())
      throw ProtocolError("a worker timed {} finalists of {}", list.size(), job.finalists.size());
    return list;
  });
  std::vector<FinalistTimes> worst(job.finalists.size());
  for (std::size_t i = 0; i < worst.size(); ++i)
    for (Measurement FinalistTimes::*part :
         {&FinalistTimes::main, &FinalistTimes::hot, &FinalistTimes::isolated})
      worst[i].*part = worst_of(times, [&](const auto& list) { return list[i].*part; });
  return worst;
}

StepTimes WorkerGroup::run(const StepJob& job, double seconds) {
  const auto times = answers(to_json(job), "step", seconds, step_times_of);
  StepTimes worst = times.begin()->second;
  for (Measurement StepTimes::*part : {&StepTimes::incumbent, &StepTimes::candidate})
    worst.*part = worst_of(times, [&](const StepTimes& of_rank) { return of_rank.*part; });
  return worst;
}

}  // namespace warptune
