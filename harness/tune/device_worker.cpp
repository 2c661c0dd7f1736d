#include "harness/tune/device_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/device/device.h"
#include "harness/measure/steady_load.h"
#include "harness/tune/device_file.h"

namespace warptune {
namespace {
constexpr double kMargin =
    3;  // over the longest verified configuration: verification takes equally long for all
constexpr double kMinSamples = 3;                       // one timed sample and the two before timing starts
constexpr double kStartSeconds = 120;                   // for a worker to open its device
constexpr double kPeaksSeconds = 300;                   // for it to measure the peaks
constexpr double kLoadSeconds = kSustainedSeconds + 5;  // for the steady load of a finalist
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

DeviceWorker::DeviceWorker(const TuneOptions& options, std::vector<std::string> devices,
                           const KernelFiles& kernels)
    : options_(options),
      workers_(options.program, std::move(devices), kernels),
      facts_(workers_.start(kStartSeconds)) {}

void DeviceWorker::know_peaks(const std::filesystem::path& file) {
  file_ = file;
  if (const auto stored = load_card_file(file, facts_)) {
    facts_.set_peaks(*stored);
    workers_.set_peaks(facts_);
  } else {
    facts_ = workers_.measure_peaks(kPeaksSeconds);
    save_device_file(file, facts_);
  }
}

LaunchFloors DeviceWorker::launch_floors() { return workers_.measure_launch_floors(kPeaksSeconds); }

void DeviceWorker::keep_raised_peaks() {
  const auto raised = workers_.take_raised_peaks();
  if (!raised) return;
  facts_ = *raised;
  save_device_file(file_, facts_);
}

Measurement DeviceWorker::measure(const Job& job, Deadline& deadline,
                                  const std::function<void()>& meanwhile) {
  const bool slow = first_ || workers_.fresh();
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
    m = workers_.run(job, deadline.seconds() + (slow ? options_.first_job_seconds : 0), timed_meanwhile);
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
  const bool slow = first_ || workers_.fresh();
  const Busy busy(*this);
  const double each = options_.deadline.max_seconds + (job.extras.sustained ? kLoadSeconds : 0);
  auto times = workers_.run(
      job, each * static_cast<double>(job.finalists.size()) + (slow ? options_.first_job_seconds : 0));
  keep_raised_peaks();
  return times;
}

StepTimes DeviceWorker::time(const StepJob& job) {
  const bool slow = first_ || workers_.fresh();  // it makes the weights and the reference
  first_ = false;
  const Busy busy(*this);
  return workers_.run(job, options_.deadline.max_seconds + (slow ? options_.first_job_seconds : 0));
}

namespace {

/// Splits "cuda:0,cuda:1" at its commas.
std::vector<std::string> split_devices(const std::string& devices) {
  std::vector<std::string> names;
  for (std::string& name : split(devices, ','))
    if (!name.empty()) names.push_back(std::move(name));
  if (names.empty()) throw InputError("--device is empty; it must be auto, host, cuda:N, all or a list");
  return names;
}

/// The devices of each worker, which has this many ranks.
std::vector<std::vector<std::string>> devices_of_workers(const std::string& given, std::size_t ranks) {
  std::vector<std::string> names;
  for (const std::string& name : split_devices(given))
    names.insert(names.end(), name.starts_with("cuda:") ? 1 : ranks, name);
  if (names.size() % ranks != 0)
    throw InputError("device '{}': problems of {} ranks need {} GPUs, one each, or a multiple", given, ranks,
                     ranks);
  std::vector<std::vector<std::string>> workers;
  for (auto at = names.begin(); at != names.end(); at += static_cast<std::ptrdiff_t>(ranks))
    workers.emplace_back(at, at + static_cast<std::ptrdiff_t>(ranks));
  return workers;
}

std::unique_ptr<DeviceWorker> started(const TuneOptions& options, const std::vector<std::string>& devices,
                                      const KernelFiles& kernels) {
  try {
    return std::make_unique<DeviceWorker>(options, devices, kernels);
  } catch (const InputError& e) {
    if (devices.size() == 1) throw;
    throw InputError("problems of {} ranks need {} devices of one kind: {}", devices.size(), devices.size(),
                     e.what());
  }
}

}  // namespace

std::vector<std::unique_ptr<DeviceWorker>> start_workers(const Sweep& sweep, const TuneOptions& options) {
  const auto ranks = static_cast<std::size_t>(ranks_of(sweep));
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  std::set<std::string> used;  // ids
  const auto add = [&](const std::vector<std::string>& devices) {
    KernelFiles kernels = sweep.kernels;
    // Less than the first job of a problem has, so that the reference's own sentence comes first.
    kernels.reference_seconds = std::max(options.first_job_seconds, options.deadline.max_seconds / 2);
    std::vector<std::string> names;
    for (const std::string& device : devices) names.push_back(device_as(device, options.as));
    auto worker = started(options, names, kernels);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::string& id = worker->ids()[rank];
      const bool is_shared = options.may_share || (rank > 0 && worker->facts().backend == Backend::host);
      if (!used.insert(id).second && !is_shared)
        throw InputError("device '{}' is given twice ({} {})", devices[rank], worker->facts().name, id);
    }
    workers.push_back(std::move(worker));
  };
  const std::string given = options.device.value_or(sweep.device);
  if (given != "all") {
    for (const auto& devices : devices_of_workers(given, ranks)) add(devices);
    return workers;
  }
  try {
    for (std::size_t next = 0;;) {
      std::vector<std::string> devices;
      while (devices.size() < ranks) devices.push_back(fmt::format("cuda:{}", next++));
      add(devices);
    }
  } catch (const InputError& e) {  // no further GPU
    if (workers.empty())
      throw InputError("device 'all' means every GPU, and {}; for the CPU say host", e.what());
  }
  return workers;
}

std::vector<std::string> ids_of(const std::vector<std::unique_ptr<DeviceWorker>>& workers) {
  std::set<std::string> ids;
  for (const auto& worker : workers) ids.insert(worker->ids().begin(), worker->ids().end());
  return {ids.begin(), ids.end()};
}

}  // namespace warptune
