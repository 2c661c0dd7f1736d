#pragma once
// The parent's side of a worker: starts it, sends jobs with a deadline, replaces it when it hangs or dies.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/line_process.h"
#include "harness/custom/kernel_files.h"
#include "harness/tune/protocol.h"

namespace warptune {

class WorkerProcess {
 public:
  /// The worker is `program worker --device X`, with the files that define kernels of the user. Nothing is
  /// started yet.
  WorkerProcess(const std::filesystem::path& program, std::string device, const KernelFiles& kernels = {});

  /// Starts it and returns the facts of its device. Throws InputError (no such device) or runtime_error.
  DeviceFacts start(double seconds);
  /// Measures the peaks and returns the facts with them.
  DeviceFacts measure_peaks(double seconds);
  /// Measures the cost of a launch. Throws runtime_error, as measure_peaks() does.
  LaunchFloors measure_launch_floors(double seconds);
  /// Sets the peaks that this worker and its replacements use.
  void set_peaks(const DeviceFacts& facts);
  /// Returns the result of a job. A worker past the deadline is killed (timeout); a worker that dies or
  /// answers with anything else makes the job a crash. In each case the next job starts a new worker. If
  /// someone else killed the worker (SIGKILL), the job is tried again, three times in all.
  /// `meanwhile`, if any, runs in this process while the worker is busy.
  Measurement run(const Job& job, double seconds, const std::function<void()>& meanwhile = {});
  /// Times finalists. Throws runtime_error with the reason if the answer is late, or if the worker dies or
  /// loses its device; the next job starts a new worker.
  std::vector<FinalistTimes> run(const FinalistsJob& job, double seconds);
  /// Times the plans of a model step. Throws as for finalists.
  StepTimes run(const StepJob& job, double seconds);
  /// The peaks, if a job raised them since the last call.
  std::optional<DeviceFacts> take_raised_peaks() { return std::exchange(raised_, std::nullopt); }
  /// How long the stages of all jobs took.
  const StageTimes& stages() const { return stages_; }
  /// Whether the worker of the next job has not prepared a problem yet.
  bool fresh() const { return fresh_; }

 private:
  /// The next message of the worker, or why there is none: the worker is gone then.
  struct Reply {
    LineProcess::Answer::Kind kind;
    nlohmann::json message;
    std::string why;
  };
  void end_worker();  // the next job starts another
  void send_peaks();
  void send(const nlohmann::json& message) { process_.value().send(message.dump()); }
  Reply receive(double seconds);
  nlohmann::json expect(const std::string& type, double seconds);
  void take_news(const nlohmann::json& answer);
  template <class Attempt>
  auto retried(Attempt&& attempt);
  /// Sends a job and reads the answer of this type. Throws as run() does for finalists.
  template <class Read>
  auto answer(const nlohmann::json& job, const char* type, double seconds, Read&& read);
  Measurement run_once(const Job& job, double seconds, const std::function<void()>& meanwhile);

  const std::vector<std::string> words_;  // the command line of the worker
  const std::string device_;
  std::optional<DeviceFacts> peaks_, raised_;
  StageTimes stages_;
  std::optional<LineProcess> process_;
  bool fresh_ = true;
  bool killed_ = false;  // by a SIGKILL of someone else
};

}  // namespace warptune
