#include "harness/measure/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/device/host_device.h"
#include "harness/measure/bench.h"
#include "harness/measure/timed_samples.h"
#include "kernels/support/args.h"

namespace warptune {
namespace {

constexpr int kSamples = 11;
constexpr int kNodes = 1000;            // the length of a chain of empty kernels
constexpr int kChunksOfL2 = 4;          // chunks per L2: reading one takes long compared with a launch
constexpr double kLargestRotation = 4;  // in units of the L2

double median_us(Device& device, CapturedGraph& graph) { return median_us(device, graph, kSamples); }

std::unique_ptr<Plan> plan_of(Device& device, const char* kernel, std::int64_t blocks, std::int64_t block,
                              bool pdl = false) {
  const Variant variant{.name = kernel,
                        .idea = "calibration",
                        .stages = {{"support/stream.cu", kernel,
                                    LaunchExpressions{.grid = {blocks}, .block = {block}, .pdl = pdl}}}};
  return device.prepare(variant, {.op = "calibration", .dims = {}, .dtype = DType::fp32}, {});
}

/// Times rotations over 1, 2, ... chunks. A replay is at least four rounds and 64 reads long.
template <class Read>
std::vector<RotationPoint> rotate(Device& device, std::int64_t chunk_bytes, Read&& read) {
  std::vector<RotationPoint> points;
  for (int chunks = 1; chunks <= kLargestRotation * kChunksOfL2; ++chunks) {
    const int launches = std::max(4 * chunks, 64) / chunks * chunks;
    const auto graph = device.record([&](Stream stream) {
      for (int i = 0; i < launches; ++i) read(i % chunks, stream);
    });
    points.push_back(
        {.bytes = static_cast<double>(chunks * chunk_bytes), .us = median_us(device, *graph) / launches});
  }
  return points;
}

void calibrate_cuda(Device& device, Calibration& c) {
  const int sms = c.facts.sms;
  const std::int64_t bytes =
      std::min<std::int64_t>(4LL << 30, static_cast<std::int64_t>(device.free_bytes()) / 3);
  {
    const Buffer to = device.allocate(static_cast<std::size_t>(bytes));
    const StreamArgs args{.from = nullptr, .to = to.data(), .vectors = bytes / 16};
    for (const int per_sm : {2, 4, 16}) {
      const auto plan = plan_of(device, "stream_write<4>", per_sm * sms, 512);
      const auto graph = device.record([&](Stream stream) { plan->launch(&args, stream); });
      c.write_gb_per_s =
          std::max(c.write_gb_per_s, static_cast<double>(bytes) / median_us(device, *graph) * 1e-3);
    }
  }

  const SpinArgs nothing{.nanoseconds = 0};
  const auto chain = [&](const Plan& plan) {
    return [&](Stream stream) {
      for (int i = 0; i < kNodes; ++i) plan.launch(&nothing, stream);
    };
  };
  const auto empty = plan_of(device, "empty", 1, 32);
  FunctionGraph direct(chain(*empty));
  c.launch_us = median_us(device, direct) / kNodes;
  c.graph_node_us = median_us(device, *device.record(chain(*empty))) / kNodes;
  if (c.facts.arch_number() >= 90) {
    const auto dependent = plan_of(device, "empty_dependent", 1, 32, true);
    c.graph_node_pdl_us = median_us(device, *device.record(chain(*dependent))) / kNodes;
  }

  const std::int64_t chunk = c.facts.l2_bytes / kChunksOfL2 / 256 * 256;
  if (chunk == 0) return;
  const auto max_chunks = static_cast<std::int64_t>(kLargestRotation * kChunksOfL2);
  const Buffer from = device.allocate(static_cast<std::size_t>(max_chunks * chunk));
  device.fill_random(from.data(), DType::fp32, max_chunks * chunk / 4, 1, 1.0f);
  const auto plan = plan_of(device, "stream_read<4>", 4 * sms, 512);
  c.rotation = rotate(device, chunk, [&](int i, Stream stream) {
    const StreamArgs args{.from = from.as<std::byte>() + i * chunk, .to = from.data(), .vectors = chunk / 16};
    plan->launch(&args, stream);
  });
}

void calibrate_host(Device& device, Calibration& c) {
  std::vector<unsigned char> to(64u << 20);
  const auto write = device.record([&](Stream) { std::memset(to.data(), 1, to.size()); });
  c.write_gb_per_s = static_cast<double>(to.size()) / median_us(device, *write) * 1e-3;
}

}  // namespace

double where_time_stops_rising(std::span<const RotationPoint> points, double tolerance) {
  if (points.empty()) return 0;
  double bytes = points.back().bytes;
  for (std::size_t i = points.size(); i-- > 0;) {
    if (!(std::abs(points[i].us / points.back().us - 1) <= tolerance)) break;
    bytes = points[i].bytes;
  }
  return bytes;
}

Calibration calibrate(Device& device) {
  Calibration c;
  c.facts = measure_peaks(device);
  device.reset_persisting_cache();
  if (c.facts.backend == Backend::cuda)
    calibrate_cuda(device, c);
  else
    calibrate_host(device, c);
  c.cold_bytes = where_time_stops_rising(c.rotation);
  return c;
}

}  // namespace warptune
