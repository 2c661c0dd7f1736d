#include "harness/measure/timed_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>

#include "harness/core/error.h"
#include "harness/core/rank_group.h"
#include "harness/measure/statistics.h"

namespace warptune {
namespace {
constexpr auto kCoolDown = std::chrono::milliseconds(10);  // after a throttled sample
constexpr double kMostHostRatio = 1.5;
}  // namespace

void guarded(Device& device, Measurement& m, const std::function<void()>& body) {
  try {
    body();
  } catch (const RankLost&) {
    throw;
  } catch (const CompileError& e) {
    m.fail(Status::compile_error, e.what());
  } catch (const ResourceError& e) {
    m.fail(Status::resource, e.what());
  } catch (const std::bad_alloc&) {
    m.fail(Status::resource, "the host is out of memory");
  } catch (const std::exception& e) {
    m.fail(Status::launch_error, e.what());
    device.synchronize();  // throws if the device is lost: the process must then be replaced
  }
}

Sample timed(Device& device, CapturedGraph& graph, ClockWatch& watch, bool flush, double duty_cycle) {
  if (flush) device.flush_cache(device.stream());
  const bool waits_for_ranks = device.group() != nullptr;
  const double start = waits_for_ranks ? NAN : watch.now();
  Sample sample{.us = device.time_us(graph)};
  if (!waits_for_ranks) sample.host_us = (watch.now() - start) * 1e6;
  sample.throttled = device.largest(watch.throttled()) > 0;
  if (sample.throttled) std::this_thread::sleep_for(kCoolDown);
  if (duty_cycle < 1 && sample.us > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(sample.us * (1 / duty_cycle - 1)));
  return sample;
}

double median_us(Device& device, CapturedGraph& graph, int samples) {
  device.time_us(graph);
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(device.time_us(graph));
  return median(times);
}

void put_samples(Measurement& m, const Samples& samples, int launches, double duty_cycle) {
  m.detail = sentence_of(samples);
  if (duty_cycle < 1)
    m.detail = fmt::format("duty cycle {}{}{}", duty_cycle, m.detail.empty() ? "" : "; ", m.detail);
  if (samples.stop == Stop::abandoned) m.sampling = SamplingClass::abandoned;
  if (samples.us.empty()) {
    m.status = Status::launch_error;
    return;
  }
  std::vector<double> sorted = samples.us;
  for (double& s : sorted) s /= launches;
  m.samples_us = sorted;
  std::ranges::sort(sorted);
  m.samples = static_cast<int>(sorted.size());
  m.launches_per_sample = launches;
  m.time_us = quantile(sorted, 0.5);
  m.time_us_min = sorted.front();
  m.time_us_p10 = quantile(sorted, 0.1);
  m.time_us_p90 = quantile(sorted, 0.9);
  std::vector<double> steady = sorted_without_drift(samples);
  for (double& s : steady) s /= launches;
  const double middle = quantile(steady, 0.5), scale = middle > 0 ? m.time_us / middle : 1;
  const auto [low, high] = median_interval(steady);
  m.ci_low_us = scale * low;
  m.ci_high_us = scale * high;
  if (sorted.size() >= kMinSamplesForInterval && std::isfinite(samples.host_ratio) &&
      samples.host_ratio > kMostHostRatio)
    m.fail(Status::too_fast,
           fmt::format("by the host's clock every replay takes at least {:.1f} times as long as by the "
                       "device's events",
                       samples.host_ratio));
}

}  // namespace warptune
