#pragma once
// Verifies and times the configurations of one problem on one device.
#include <functional>
#include <memory>
#include <vector>

#include "harness/core/variant.h"
#include "harness/measure/cache_mode.h"
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"
#include "harness/measure/stage_times.h"
#include "harness/verify/input_change.h"

namespace warptune {

/// How long a sample is, about, so that the resolution of events is noise.
inline constexpr double kSampleUs = 1000;
/// The same of a screening whose finalists are timed again. Its times are about half a percent too long.
inline constexpr double kScreeningSampleUs = 500;

/// Of BenchOptions: samples and rests of finalists end before their deadline.
inline constexpr double kLeastDutyCycle = 0.05;

struct BenchOptions {
  CacheMode cache = CacheMode::cold;
  double max_rel_ci = 0.005;  // stop when the 95 % interval of the median is this narrow
  int min_samples = 11;
  double max_time = 0.25;  // seconds of sampling, per configuration
  double duty_cycle = 1;   // the part of the time in which the device works
  std::uint64_t seed = 1;
  InputChanges inputs = {};
};

struct Finalist {
  const Variant* variant = nullptr;
  Config config;
};

/// The times of a finalist: in the bench's cache mode; hot, on one set of tensors (not measured if that is
/// the mode); and isolated, one launch after a flush per sample.
struct FinalistTimes {
  Measurement main, hot, isolated;
};

/// What is measured of finalists besides their times in the bench's cache mode.
struct FinalistExtras {
  bool other_caches = true;  // times of hot and isolated launches
  bool energy = false;       // the energy of a launch
  bool sustained = false;    // time and power after ten seconds of steady load
};

/// Measures read, copy, L2 and matrix peaks and the launch floor of a device (about half a second), and
/// sets them.
DeviceFacts measure_peaks(Device& device);
using MeasurePeaks = std::function<DeviceFacts(Device&)>;
/// Measures the peaks again and keeps the higher value of each: a busy device can only lower them. Does
/// nothing if the device has too little free memory to measure.
void raise_peaks(Device& device, const MeasurePeaks& measure = measure_peaks);

class Workbench;
enum class Timing;

/// Allocates and fills the tensors once, computes the reference once, then tries any number of
/// configurations.
class Bench {
 public:
  /// `measure` measures the peaks again before a time counts as impossible. `now` limits how long a
  /// configuration is sampled; the samples themselves are timed by the device.
  Bench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options,
        MeasurePeaks measure = measure_peaks, Seconds now = steady_seconds);
  ~Bench();
  /// Compiles, verifies, times, and verifies again on other inputs. A failure of the configuration becomes
  /// its status. Errors of the device itself (a sticky CUDA error) are thrown. `best_us`: the upper end of
  /// the interval of the best so far; a configuration that is surely slower is abandoned after a few samples.
  Measurement run(const Variant& variant, const Config& config, double best_us = Measurement::NAN_VALUE,
                  double sample_us = kSampleUs);
  /// Times finalists (which run() has verified) interleaved, A B C A B C, and verifies each again.
  std::vector<FinalistTimes> time_interleaved(const std::vector<Finalist>& finalists, int rounds,
                                              FinalistExtras extras = {});
  const Problem& problem() const;
  /// How long the stages took since the last call.
  StageTimes take_times();

 private:
  void check_peaks(Measurement& measurement, Timing timing);

  const Seconds now_;
  std::unique_ptr<Workbench> work_;
  const MeasurePeaks measure_;
  int raised_ = 0;  // how often the peaks were measured again
};

/// max(bytes / read bandwidth, flops / rate) in microseconds; 0 where the peaks are not measured. The rate is
/// the matrix peak, twice that with Cost::fp8_products, of fp32 the arithmetic peak, or that of
/// Cost::tf32_products at half the matrix peak, if that is faster.
double floor_us(const DeviceFacts& facts, const Cost& cost, const Problem& problem);

}  // namespace warptune
