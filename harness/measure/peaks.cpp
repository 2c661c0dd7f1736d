// Measures the peaks of roofline floors with variants of pseudo-problems, replayed like any other variant.
#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/core/parallel.h"
#include "harness/measure/bench.h"
#include "harness/measure/timed_samples.h"
#include "kernels/support/args.h"

namespace warptune {
namespace {

constexpr int kPeakSamples = 9;
constexpr int kHostRuns = 24;  // takes the best run: on a busy machine most runs are disturbed

double median_us(Device& device, const Plan& plan, std::span<const StreamArgs> args) {
  auto replay = device.record([&](Stream stream) {
    for (const StreamArgs& a : args) plan.launch(&a, stream);
  });
  return median_us(device, *replay, kPeakSamples) / static_cast<double>(args.size());
}

Variant kernel(const char* name, const char* file, const char* expression) {
  return {.name = name,
          .idea = "peak",
          .stages = {{file, expression, LaunchExpressions{.grid = {"blocks"}, .block = {"block"}}}}};
}

void measure_cuda(Device& device, DeviceFacts& facts) {
  const std::int64_t bytes =
      std::min<std::int64_t>(4LL << 30, static_cast<std::int64_t>(device.free_bytes()) / 3);
  const Buffer from = device.allocate(static_cast<std::size_t>(bytes));
  device.fill_random(from.data(), DType::fp32, bytes / 4, 1, 1.0f);
  const Problem p{.op = "peak", .dims = {{"block", 512}}, .dtype = DType::fp32};
  const StreamArgs read{.from = from.data(), .to = from.data(), .vectors = bytes / 16};
  const StreamArgs copy{.from = from.data(), .to = from.as<std::byte>() + bytes / 2, .vectors = bytes / 32};
  const auto gb_per_s = [&](double us) { return static_cast<double>(bytes) / us * 1e-3; };

  for (const int per_sm : {2, 4, 16}) {
    const Config c{{"blocks", per_sm * facts.sms}};
    for (const char* expression : {"stream_read<4>", "stream_read<8>"}) {
      const auto plan = device.prepare(kernel("read", "support/stream.cu", expression), p, c);
      facts.read_gb_per_s = std::max(facts.read_gb_per_s, gb_per_s(median_us(device, *plan, {&read, 1})));
    }
    const auto plan = device.prepare(kernel("copy", "support/stream.cu", "stream_copy<4>"), p, c);
    facts.copy_gb_per_s = std::max(facts.copy_gb_per_s, gb_per_s(median_us(device, *plan, {&copy, 1})));
  }

  // One launch reads a quarter of the L2 many times, so that the launch and the first read are noise.
  constexpr int kRounds = 64;
  const std::int64_t resident = facts.l2_bytes / 4 / 16 * 16;
  const StreamArgs again{.from = from.data(), .to = from.data(), .vectors = resident / 16};
  for (const int per_sm : {2, 4})
    for (const char* expression : {"stream_read<4, 64>", "stream_read<8, 64>"}) {
      const auto plan = device.prepare(kernel("read_l2", "support/stream.cu", expression), p,
                                       {{"blocks", per_sm * facts.sms}});
      const double us = median_us(device, *plan, {&again, 1});
      facts.l2_read_gb_per_s =
          std::max(facts.l2_read_gb_per_s, kRounds * static_cast<double>(resident) / us * 1e-3);
    }

  constexpr int kChains = 8, kSteps = 4096;
  const Problem wide{.op = "peak", .dims = {{"block", 256}}, .dtype = DType::fp32};
  const std::int64_t blocks = 8 * facts.sms;
  const auto fma = device.prepare(kernel("fma", "support/arithmetic.cu", "fma_chains<8, 4096>"), wide,
                                  {{"blocks", blocks}});
  facts.vector_tflop_per_s =
      2.0 * kChains * kSteps * 256 * static_cast<double>(blocks) / median_us(device, *fma, {&read, 1}) * 1e-6;

  const Buffer tiles = device.allocate(1 << 20);
  device.fill_random(tiles.data(), DType::bf16, 1 << 19, 2, 1.0f);
  const StreamArgs on_chip{.from = tiles.data(), .to = tiles.data(), .vectors = 0};
  const auto matrix = device.prepare(kernel("matrix", "support/arithmetic.cu", "matrix_chains<512>"), wide,
                                     {{"blocks", blocks}});
  facts.matrix_tflop_per_s = 512.0 * 8 * 2 * 2 * 64 * 128 * 16 * static_cast<double>(blocks) /
                             median_us(device, *matrix, {&on_chip, 1}) * 1e-6;

  const std::vector<StreamArgs> many(1000, read);
  const auto empty = device.prepare(kernel("empty", "support/stream.cu", "empty"),
                                    Problem{.op = "peak", .dims = {{"block", 32}}}, {{"blocks", 1}});
  facts.launch_floor_us = median_us(device, *empty, many);
}

void measure_host(Device& device, DeviceFacts& facts) {
  const std::int64_t count = 16LL << 20;
  std::vector<float> from(static_cast<std::size_t>(count), 1.0f), to(from.size());
  const int threads = facts.sms;
  const auto best_us = [&](const std::function<void()>& body) {
    auto replay = device.record([&](Stream) { body(); });
    double best = device.time_us(*replay);
    for (int i = 0; i < kHostRuns; ++i) best = std::min(best, device.time_us(*replay));
    return best;
  };
  const std::int64_t part = count / threads;
  std::vector<float> sums(static_cast<std::size_t>(threads));
  const double read = best_us([&] {
    parallel_for(threads, threads, [&](std::int64_t t) {
      float lanes[16] = {};
      for (std::int64_t i = t * part; i + 16 <= (t + 1) * part; i += 16)
        for (int j = 0; j < 16; ++j) lanes[j] += from[static_cast<std::size_t>(i + j)];
      for (const float lane : lanes) sums[static_cast<std::size_t>(t)] += lane;
    });
  });
  facts.read_gb_per_s = 4.0 * static_cast<double>(count) / read * 1e-3;
  const double copy = best_us([&] {
    parallel_for(threads, threads, [&](std::int64_t t) {
      std::memcpy(to.data() + t * part, from.data() + t * part, static_cast<std::size_t>(4 * part));
    });
  });
  facts.copy_gb_per_s = 8.0 * static_cast<double>(count) / copy * 1e-3;
}

/// Whether the free memory is large enough to measure memory rates: the L2 serves part of a small buffer.
bool can_measure(const Device& device) {
  return static_cast<std::int64_t>(device.free_bytes()) / 3 > 8 * device.facts().l2_bytes;
}

}  // namespace

DeviceFacts measure_peaks(Device& device) {
  DeviceFacts facts = device.facts();
  facts.set_peaks({});
  if (facts.backend == Backend::cuda)
    measure_cuda(device, facts);
  else
    measure_host(device, facts);
  device.set_peaks(facts);
  return facts;
}

void raise_peaks(Device& device, const MeasurePeaks& measure) {
  if (!can_measure(device)) return;
  const DeviceFacts before = device.facts();
  DeviceFacts facts = measure(device);
  for (double DeviceFacts::*rate :
       {&DeviceFacts::read_gb_per_s, &DeviceFacts::copy_gb_per_s, &DeviceFacts::l2_read_gb_per_s,
        &DeviceFacts::matrix_tflop_per_s, &DeviceFacts::vector_tflop_per_s})
    facts.*rate = std::max(facts.*rate, before.*rate);
  if (before.launch_floor_us > 0)
    facts.launch_floor_us = std::min(facts.launch_floor_us, before.launch_floor_us);
  device.set_peaks(facts);
}

}  // namespace warptune
