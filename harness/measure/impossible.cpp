#include "harness/measure/impossible.h"

#include <algorithm>

#include "harness/measure/bench.h"

namespace warptune {
namespace {

constexpr double kNoise = 1.04;      // measured peaks vary by 2 %
constexpr double kOtherCard = 1.04;  // the peaks of two cards of one kind differ by up to 4 %
/// With programmatic dependent launch a launch overlaps with its predecessor: an H200 starts an empty kernel
/// every 0.40 us with it, every 0.52 us without.
constexpr double kLaunchOverlap = 0.5;

/// Twice the rates of the fastest known devices (B200), and half the launch floor of an H200. A launch on the
/// host is a function call.
DeviceFacts unreachable_peaks(Backend backend) {
  return {.backend = backend,
          .l2_bytes = 1 << 30,
          .read_gb_per_s = 16'000,
          .l2_read_gb_per_s = 40'000,
          .matrix_tflop_per_s = 5'000,
          .vector_tflop_per_s = 200,
          .launch_floor_us = backend == Backend::host ? 0.002 : 0.25};
}

/// The peaks of `facts`, each at least as slow as one that no device reaches.
DeviceFacts believable(const DeviceFacts& facts) {
  DeviceFacts peaks = unreachable_peaks(facts.backend);
  if (facts.backend == Backend::host) return peaks;
  for (double DeviceFacts::*rate : {&DeviceFacts::read_gb_per_s, &DeviceFacts::l2_read_gb_per_s,
                                    &DeviceFacts::matrix_tflop_per_s, &DeviceFacts::vector_tflop_per_s})
    if (facts.*rate > 0) peaks.*rate = std::min(peaks.*rate, facts.*rate);
  peaks.launch_floor_us = std::max(peaks.launch_floor_us, facts.launch_floor_us);
  if (facts.l2_bytes > 0) peaks.l2_bytes = facts.l2_bytes;
  return peaks;
}

}  // namespace

std::int64_t bytes_of(std::span<const TensorSpec> specs, CacheState state) {
  std::int64_t bytes = 0;
  for (const TensorSpec& spec : specs)
    if (spec.cache == state) bytes += spec.bytes();
  return bytes;
}

void decide_cache_states(std::vector<TensorSpec>& specs, CacheMode cache, std::int64_t l2_bytes) {
  const bool too_large = bytes_of(specs, CacheState::hot) > l2_bytes / 8;
  for (TensorSpec& spec : specs) {
    if (cache == CacheMode::hot)
      spec.cache = CacheState::hot;
    else if (too_large)
      spec.cache = CacheState::cold;
  }
}

double cold_bytes(const Cost& cost, std::span<const TensorSpec> specs) {
  return std::max(0.0, cost.bytes - static_cast<double>(bytes_of(specs, CacheState::hot)));
}

double impossible_us(const DeviceFacts& facts, const Cost& cost, const Problem& problem,
                     std::span<const TensorSpec> specs, Timing timing) {
  // Written data may stay in the L2 until after the last event, and writes overlap with reads.
  double written = 0;
  for (const TensorSpec& spec : specs)
    if (spec.role != Role::input) written += static_cast<double>(spec.bytes());
  const double read = std::max(0.0, cost.bytes - written);
  Cost reached = cost;
  reached.bytes = timing == Timing::hot ? 0 : timing == Timing::isolated ? read : cold_bytes(cost, specs);
  const double memory_us = floor_us(facts, reached, problem);
  const double l2_us = facts.l2_read_gb_per_s > 0 ? read / facts.l2_read_gb_per_s * 1e-3 : 0;
  return std::max({memory_us, l2_us, kLaunchOverlap * facts.launch_floor_us}) / kNoise;
}

double impossible_elsewhere_us(const DeviceFacts& facts, const Op& op, const Problem& problem,
                               CacheMode cache, double time_us) {
  const DeviceFacts peaks = believable(facts);
  if (time_us >= impossible_us(peaks, op.cost(problem), problem, {}, Timing::main)) return 0;
  std::vector<TensorSpec> specs = op.tensors(problem, 1);
  decide_cache_states(specs, cache, peaks.l2_bytes);
  const Timing timing = cache == CacheMode::hot ? Timing::hot : Timing::main;
  return impossible_us(peaks, op.cost(problem), problem, specs, timing) / kOtherCard;
}

}  // namespace warptune
