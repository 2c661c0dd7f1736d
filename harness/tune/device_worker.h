#pragma once
// One device of a sweep, or the devices of several ranks: their worker under deadlines, their facts, and how
// long they were busy.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/stopwatch.h"
#include "harness/measure/measurement.h"
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"
#include "harness/tune/worker_group.h"

namespace warptune {

/// How long a configuration of one problem may take before it counts as hung. It adapts to the configurations
/// that were verified.
class Deadline {
 public:
  explicit Deadline(DeadlineRule rule) : rule_(rule) {}
  /// A configuration was verified and timed in `seconds`.
  void learn(const Measurement& measurement, double seconds);
  double seconds() const;

 private:
  DeadlineRule rule_;
  double longest_ = 0;        // seconds of the longest verified configuration
  double best_us_ = 0;        // 0: none yet
  double best_launches_ = 0;  // timed launches of the best
};

class DeviceWorker {
 public:
  /// Starts a process for each device, the ranks of a group. Throws InputError where there is no such device.
  /// The options must outlive it.
  DeviceWorker(const TuneOptions& options, std::vector<std::string> devices, const KernelFiles& kernels = {});

  /// Those of the first device: all are of one kind.
  const DeviceFacts& facts() const& { return facts_; }
  const DeviceFacts& facts() const&& = delete;
  /// DeviceFacts::id of each device.
  const std::vector<std::string>& ids() const { return workers_.ids(); }
  /// Takes the measured peaks from a file, or measures them and writes it.
  void know_peaks(const std::filesystem::path& file);
  /// The cost of a launch; without samples on the host.
  LaunchFloors launch_floors();
  /// The next job starts a new process.
  void renew() { workers_.renew(); }
  /// The next job is the first of a problem: it has more time.
  void begin_problem() { first_ = true; }
  /// A worker that cannot be replaced counts as a crash of the job. Throws InputError where the device is
  /// gone.
  /// `meanwhile` runs in this process while the worker is busy.
  Measurement measure(const Job& job, Deadline& deadline, const std::function<void()>& meanwhile = {});
  /// Throws as WorkerGroup does.
  std::vector<FinalistTimes> time(const FinalistsJob& job);
  StepTimes time(const StepJob& job);

  double busy_seconds() const { return busy_seconds_; }
  const StageTimes& stages() const { return workers_.stages(); }
  /// How long the worker had measured and waited for the end of a `meanwhile`. It is not busy then.
  double waiting_seconds() const { return waiting_seconds_; }
  /// Since its first job; 0 before it.
  double working_seconds() const { return first_job_ ? first_job_->seconds() : 0; }

 private:
  class Busy;
  void keep_raised_peaks();

  const TuneOptions& options_;
  WorkerGroup workers_;
  DeviceFacts facts_;
  std::filesystem::path file_;  // keeps the measured peaks
  bool first_ = true;
  double busy_seconds_ = 0, waiting_seconds_ = 0;
  std::optional<Stopwatch> first_job_;
};

/// A worker for each device that the options name, or else the sweep; where its problems have ranks, for as
/// many devices. `auto` and `host` then stand for the devices of all ranks. `all`: every GPU. Throws
/// InputError where there are too few, and where a device is named twice.
std::vector<std::unique_ptr<DeviceWorker>> start_workers(const Sweep& sweep, const TuneOptions& options);
/// DeviceFacts::id of all devices, in one global order.
std::vector<std::string> ids_of(const std::vector<std::unique_ptr<DeviceWorker>>& workers);

}  // namespace warptune
