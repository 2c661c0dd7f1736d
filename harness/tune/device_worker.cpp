#include "tune/device_worker.h"

#include <fmt/format.h>

#include "core/error.h"
#include "tune/device_file.h"

namespace warptune {
namespace {
constexpr double kStartSeconds = 120;     // for a worker to open its device
constexpr double kCeilingsSeconds = 300;  // for it to measure the ceilings
}  // namespace

/// Counts its lifetime as busy.
class DeviceWorker::Busy {
 public:
  explicit Busy(DeviceWorker& worker) : worker_(worker) {
    if (!worker.first_job_) worker.first_job_.emplace();
  }
  ~Busy() { worker_.busy_seconds_ += seconds(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  double seconds() const { return watch_.seconds(); }

 private:
  DeviceWorker& worker_;
  Stopwatch watch_;
};

DeviceWorker::DeviceWorker(const TuneOptions& options, const std::string& device)
    : options_(options), process_(options.program, device), facts_(process_.start(kStartSeconds)) {}

void DeviceWorker::know_ceilings(const std::filesystem::path& file) {
  if (const auto stored = load_device_file(file, facts_)) {
    process_.set_ceilings(*stored);
    facts_ = *stored;
  } else {
    facts_ = process_.measure_ceilings(kCeilingsSeconds);
    save_device_file(file, facts_);
  }
}

LaunchFloors DeviceWorker::launch_floors() { return process_.measure_launch_floors(kCeilingsSeconds); }

Measurement DeviceWorker::measure(const Job& job, Deadline& deadline) {
  const bool slow = first_ || process_.fresh();
  first_ = false;
  const Busy busy(*this);
  Measurement m;
  try {
    m = process_.run(job, deadline.seconds() + (slow ? options_.first_job_seconds : 0));
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {  // no new worker: the device is gone for now
    m = {.status = Status::crash, .detail = e.what()};
  }
  if (!slow) deadline.learn(m, busy.seconds());
  return m;
}

std::vector<FinalistTimes> DeviceWorker::time(const FinalistsJob& job) {
  const bool slow = first_ || process_.fresh();
  const Busy busy(*this);
  return process_.run(job, options_.deadline.most_seconds * static_cast<double>(job.finalists.size()) +
                               (slow ? options_.first_job_seconds : 0));
}

std::vector<std::unique_ptr<DeviceWorker>> start_workers(const Sweep& sweep, const TuneOptions& options) {
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  const auto add = [&](const std::string& device) {
    workers.push_back(std::make_unique<DeviceWorker>(options, device));
  };
  const std::string given = options.device.value_or(sweep.device);
  if (given != "all") {
    for (const std::string& device : split_devices(given)) add(device);
    return workers;
  }
  try {
    for (int i = 0;; ++i) add(fmt::format("cuda:{}", i));
  } catch (const InputError&) {  // no further GPU
  }
  if (workers.empty()) add("host");
  return workers;
}

}  // namespace warptune
