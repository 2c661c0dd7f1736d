#pragma once
// The parent's side of a worker: starts its processes, sends jobs with a deadline, replaces the processes
// when one hangs or dies.
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/line_process.h"
#include "harness/custom/kernel_files.h"
#include "harness/tune/protocol.h"

namespace warptune {

/// A process for each of its devices: the ranks of a group, which do every job in lock-step. Most workers
/// have one device.
class WorkerGroup {
 public:
  /// The processes are `program worker --device X`, with the files that define kernels of the user. Nothing
  /// is started yet.
  WorkerGroup(const std::filesystem::path& program, std::vector<std::string> devices,
              const KernelFiles& kernels = {});

  /// Starts them and returns the facts of the first device. Throws InputError (no such device, devices of
  /// two kinds) or runtime_error.
  DeviceFacts start(double seconds);
  /// The next job starts new processes.
  void renew() { end(); }
  /// DeviceFacts::id of each device.
  const std::vector<std::string>& ids() const { return ids_; }
  /// Measures the peaks of the first device, for all, and returns the facts with them.
  DeviceFacts measure_peaks(double seconds);
  /// Measures the cost of a launch on the first device. Throws runtime_error, as measure_peaks() does.
  LaunchFloors measure_launch_floors(double seconds);
  /// Sets the peaks that these processes and their replacements use.
  void set_peaks(const DeviceFacts& facts);
  /// Returns the result of a job: that of rank 0, or of the rank with the worst status. Processes past the
  /// deadline are killed (timeout); one that dies or answers with anything else makes the job a crash. In
  /// each case the next job starts new processes. If someone else killed one (SIGKILL), the job is tried
  /// again, three times in all. `meanwhile`, if any, runs in this process while the worker is busy.
  Measurement run(const Job& job, double seconds, const std::function<void()>& meanwhile = {});
  /// Times finalists. Throws runtime_error with the reason if an answer is late, or if a process dies or
  /// loses its device; the next job starts new processes.
  std::vector<FinalistTimes> run(const FinalistsJob& job, double seconds);
  /// Times the plans of a model step. Throws as for finalists.
  StepTimes run(const StepJob& job, double seconds);
  /// The peaks, if a job raised them since the last call.
  std::optional<DeviceFacts> take_raised_peaks() { return std::exchange(raised_, std::nullopt); }
  /// How long the stages of all jobs took.
  const StageTimes& stages() const { return stages_; }
  /// Whether the processes of the next job have not prepared a problem yet.
  bool fresh() const { return fresh_; }

 private:
  template <class T>
  using ByRank = std::map<std::size_t, T>;
  /// The messages of all ranks, or why there are none: the processes are gone then. A rank that cannot go
  /// on ends the group, and its message is the only one.
  struct Replies {
    LineProcess::Answer::Kind kind;
    ByRank<nlohmann::json> messages = {};
    std::string why = {};
    std::size_t rank = 0;  // that is late or has ended
  };
  void end();  // the next job starts new processes
  void send(const nlohmann::json& message);
  void send_peaks();
  Replies receive(double seconds);
  ByRank<nlohmann::json> expect(const std::string& type, double seconds);
  void take_news(const nlohmann::json& answer);
  /// "rank 1: text" where there are several.
  std::string named(std::size_t rank, const std::string& text) const;
  /// `part(answer)` is the measurement to judge.
  template <class Answer, class Part>
  Measurement worst_of(const ByRank<Answer>& answers, Part&& part) const;
  /// Reads the answers of this type. Throws ProtocolError.
  template <class Read>
  auto read_all(const ByRank<nlohmann::json>& messages, const char* type, Read&& read) const;
  template <class Attempt>
  auto retried(Attempt&& attempt);
  /// Sends a job and reads the answers of this type. Throws as run() does for finalists.
  template <class Read>
  auto answers(const nlohmann::json& job, const char* type, double seconds, Read&& read);
  Measurement run_once(const Job& job, double seconds, const std::function<void()>& meanwhile);

  const std::vector<std::string> devices_;
  const std::vector<std::string> words_;  // of the command line, without the device
  std::vector<std::string> ids_;
  std::optional<DeviceFacts> peaks_, raised_;
  StageTimes stages_;
  std::deque<LineProcess> processes_;  // by rank; empty: not started
  bool fresh_ = true;
  bool killed_ = false;  // by a SIGKILL of someone else
};

}  // namespace warptune
