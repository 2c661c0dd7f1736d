#pragma once
// The worker of one device under a sweep's deadlines, with the device's facts, and how long it was busy.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/tune/deadline.h"
#include "harness/tune/device_lock.h"
#include "harness/tune/stopwatch.h"
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"
#include "harness/tune/worker_process.h"

namespace warptune {

class DeviceWorker {
 public:
  /// Starts it. Throws InputError where there is no such device. The options must outlive it.
  DeviceWorker(const TuneOptions& options, const std::string& device);

  const DeviceFacts& facts() const { return facts_; }
  /// Waits until no other program times on the device. Nothing may be timed before.
  void lock() { lock_.emplace(facts_.id); }
  /// Takes the ceilings from a file, or measures them and writes it.
  void know_ceilings(const std::filesystem::path& file);
  /// What launching costs; without samples on the host.
  LaunchFloors launch_floors();
  /// The next job is the first of a problem, and has more time.
  void begin_problem() { first_ = true; }
  /// A worker that cannot be replaced is the job's crash. Throws InputError where the device is gone.
  Measurement measure(const Job& job, Deadline& deadline);
  /// Throws as WorkerProcess does.
  std::vector<FinalistTimes> time(const FinalistsJob& job);

  double busy_seconds() const { return busy_seconds_; }
  /// Since its first job; 0 where it had none.
  double working_seconds() const { return first_job_ ? first_job_->seconds() : 0; }

 private:
  class Busy;
  void keep_raised_ceilings();

  const TuneOptions& options_;
  WorkerProcess process_;
  DeviceFacts facts_;
  std::optional<DeviceLock> lock_;
  std::filesystem::path file_;  // of the ceilings
  bool first_ = true;
  double busy_seconds_ = 0;
  std::optional<Stopwatch> first_job_;
};

/// A worker for each device that the options name, or else the sweep. `all`: every GPU. Throws InputError
/// where there is none, and where a device is named twice.
std::vector<std::unique_ptr<DeviceWorker>> start_workers(const Sweep& sweep, const TuneOptions& options);
/// Locks them all for this program, in an order that lets no two programs wait for each other.
void lock_devices(const std::vector<std::unique_ptr<DeviceWorker>>& workers);

}  // namespace warptune
