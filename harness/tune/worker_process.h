#pragma once
// The parent's end of a worker: starts it, gives it jobs with a deadline, replaces it when it hangs or dies.
#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "harness/tune/protocol.h"

namespace warptune {

class WorkerProcess {
 public:
  /// `program worker --device X` will be run. Nothing is started yet.
  WorkerProcess(std::filesystem::path program, std::string device);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Starts it and returns the facts of its device. Throws InputError (no such device) or runtime_error.
  DeviceFacts start(double seconds);
  /// Measures the ceilings; the facts with them.
  DeviceFacts measure_ceilings(double seconds);
  /// What launching costs. Throws runtime_error, as measure_ceilings() does.
  LaunchFloors measure_launch_floors(double seconds);
  /// The ceilings that this worker, and any that replaces it, is to use.
  void set_ceilings(const DeviceFacts& facts);
  /// The result of a job. A worker that takes too long is killed (timeout), one that dies costs the job
  /// (crash); either way the next job starts a new one. A worker that someone else killed (SIGKILL) is no
  /// fault of the job, which is tried again, three times in all.
  Measurement run(const Job& job, double seconds);
  /// Times finalists. Throws runtime_error with the reason where there is no answer in time, or where the
  /// worker dies or loses its device; the next job starts a new one.
  std::vector<FinalistTimes> run(const FinalistsJob& job, double seconds);
  /// The ceilings, where a job raised them since the last call.
  std::optional<DeviceFacts> take_raised_ceilings() { return std::exchange(raised_, std::nullopt); }
  /// Whether the next job meets a worker that has prepared nothing yet.
  bool fresh() const { return fresh_; }

 private:
  enum class Wait { message, timeout, dead };
  void spawn();
  void stop();
  bool send(const nlohmann::json& json);
  Wait receive(nlohmann::json& json, double seconds);
  nlohmann::json expect(const std::string& type, double seconds);
  std::string how_it_ended();
  void take_news(const nlohmann::json& answer);
  Measurement run_once(const Job& job, double seconds);

  std::filesystem::path program_;
  std::string device_;
  std::optional<DeviceFacts> ceilings_, raised_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;  // its input, its answers, its stderr
  bool fresh_ = true;
  bool killed_ = false;  // by a SIGKILL that was not ours
  std::string text_, stderr_;
};

}  // namespace warptune
