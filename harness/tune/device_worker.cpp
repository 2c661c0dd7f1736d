#include "harness/tune/device_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/tune/device_file.h"

namespace warptune {
namespace {
constexpr double kMargin =
    3;  // over the longest verified configuration: verification takes equally long for all
constexpr double kMinSamples = 3;      // one timed sample and the two before timing starts
constexpr double kStartSeconds = 120;  // for a worker to open its device
constexpr double kPeaksSeconds = 300;  // for it to measure the peaks
}  // namespace

void Deadline::learn(const Measurement& m, double seconds) {
  if (m.status != Status::ok) return;
  longest_ = std::max(longest_, seconds);
  if (best_us_ > 0 && m.time_us >= best_us_) return;
  best_us_ = m.time_us;
  best_launches_ = kMinSamples * m.launches_per_sample;
}

double Deadline::seconds() const {
  if (best_us_ == 0) return rule_.max_seconds;
  const double sampling = rule_.slowdown * best_us_ * 1e-6 * best_launches_;
  return std::min(rule_.max_seconds, std::max(rule_.floor_seconds, kMargin * longest_ + sampling));
}

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

DeviceWorker::DeviceWorker(const TuneOptions& options, const std::string& device, const KernelFiles& kernels)
    : options_(options), process_(options.program, device, kernels), facts_(process_.start(kStartSeconds)) {}

void DeviceWorker::know_peaks(const std::filesystem::path& file) {
  file_ = file;
  if (const auto stored = load_card_file(file, facts_)) {
    facts_.set_peaks(*stored);
    process_.set_peaks(facts_);
  } else {
    facts_ = process_.measure_peaks(kPeaksSeconds);
    save_device_file(file, facts_);
  }
}

LaunchFloors DeviceWorker::launch_floors() { return process_.measure_launch_floors(kPeaksSeconds); }

void DeviceWorker::keep_raised_peaks() {
  const auto raised = process_.take_raised_peaks();
  if (!raised) return;
  facts_ = *raised;
  save_device_file(file_, facts_);
}

Measurement DeviceWorker::measure(const Job& job, Deadline& deadline,
                                  const std::function<void()>& meanwhile) {
  const bool slow = first_ || process_.fresh();
  first_ = false;
  const Busy busy(*this);
  const double measured_before = stages().sum();
  double meanwhile_seconds = 0;
  const auto timed_meanwhile = [&] {
    const Stopwatch watch;
    if (meanwhile) meanwhile();
    meanwhile_seconds += watch.seconds();
  };
  Measurement m;
  try {
    m = process_.run(job, deadline.seconds() + (slow ? options_.first_job_seconds : 0), timed_meanwhile);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {  // no new worker: the device is gone for now
    m = {.status = Status::crash, .detail = e.what()};
  }
  keep_raised_peaks();
  const double waited = std::max(0.0, meanwhile_seconds - (stages().sum() - measured_before));
  waiting_seconds_ += waited;
  busy_seconds_ -= waited;  // `busy` adds all
  if (!slow) deadline.learn(m, busy.seconds());
  return m;
}

std::vector<FinalistTimes> DeviceWorker::time(const FinalistsJob& job) {
  const bool slow = first_ || process_.fresh();
  const Busy busy(*this);
  auto times = process_.run(job, options_.deadline.max_seconds * static_cast<double>(job.finalists.size()) +
                                     (slow ? options_.first_job_seconds : 0));
  keep_raised_peaks();
  return times;
}

StepTimes DeviceWorker::time(const StepJob& job) {
  const bool slow = first_ || process_.fresh();  // it makes the weights and the reference
  first_ = false;
  const Busy busy(*this);
  return process_.run(job, options_.deadline.max_seconds + (slow ? options_.first_job_seconds : 0));
}

namespace {

/// Splits "cuda:0,cuda:1" at its commas.
std::vector<std::string> split_devices(const std::string& devices) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= devices.size();) {
    const auto comma = std::min(devices.find(',', at), devices.size());
    if (comma > at) names.push_back(devices.substr(at, comma - at));
    at = comma + 1;
  }
  if (names.empty()) throw InputError("--device is empty; it must be auto, host, cuda:N, all or a list");
  return names;
}

}  // namespace

std::vector<std::unique_ptr<DeviceWorker>> start_workers(const Sweep& sweep, const TuneOptions& options) {
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  const auto add = [&](const std::string& device) {
    KernelFiles kernels = sweep.kernels;
    // Less than the first job of a problem has, so that the reference's own sentence comes first.
    kernels.reference_seconds = std::max(options.first_job_seconds, options.deadline.max_seconds / 2);
    auto worker = std::make_unique<DeviceWorker>(options, device_as(device, options.as), kernels);
    const auto same = [&](const auto& other) { return other->facts().id == worker->facts().id; };
    if (!options.may_share && std::ranges::any_of(workers, same))
      throw InputError(fmt::format("device '{}' is given twice ({} {})", device, worker->facts().name,
                                   worker->facts().id));
    workers.push_back(std::move(worker));
  };
  const std::string given = options.device.value_or(sweep.device);
  if (given != "all") {
    for (const std::string& device : split_devices(given)) add(device);
    return workers;
  }
  try {
    for (;;) add(fmt::format("cuda:{}", workers.size()));
  } catch (const InputError& e) {  // no further GPU
    if (workers.empty())
      throw InputError(fmt::format("device 'all' means every GPU, and {}; for the CPU say host", e.what()));
  }
  return workers;
}

void lock_devices(const std::vector<std::unique_ptr<DeviceWorker>>& workers) {
  std::vector<DeviceWorker*> ordered;
  for (const auto& worker : workers) ordered.push_back(worker.get());
  std::ranges::sort(ordered, {}, [](const DeviceWorker* worker) { return worker->facts().id; });
  for (DeviceWorker* worker : ordered) worker->lock();
}

}  // namespace warptune
