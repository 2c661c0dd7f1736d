#include "harness/results/launch_load.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace warptune {
namespace {

constexpr double kFlopsPerByte = 200;  // where arithmetic takes as long as memory, roughly
constexpr double kMostTrips = 4;       // a warp waits for its first chunks; later ones come while it works
constexpr std::string_view kSplits = "splits";

double group_of(const Problem& problem) {
  if (!problem.dims.has("q_heads") || !problem.dims.has("kv_heads")) return 1;
  return static_cast<double>(problem["q_heads"]) / static_cast<double>(problem["kv_heads"]);
}

/// Blocks of a launch that a multiprocessor has room for, as far as that is known before it is compiled:
/// registers only where the launch says how many they are.
double blocks_per_sm(const Launch& launch, const DeviceFacts& facts) {
  constexpr std::int64_t kReserved = 1024;  // bytes of shared memory that each block costs besides
  constexpr std::int64_t kUnit = 8;         // a thread gets registers by so many
  const auto threads = static_cast<std::int64_t>(launch.block.x) * launch.block.y * launch.block.z;
  std::int64_t room = std::min(facts.shared_per_sm / (launch.shared_bytes + kReserved),
                               facts.threads_per_sm / std::max<std::int64_t>(1, threads));
  if (launch.registers > 0)
    room = std::min(room, facts.registers_per_sm / (ceil_div(launch.registers, kUnit) * kUnit * threads));
  return static_cast<double>(std::clamp<std::int64_t>(room, 1, 32));
}

/// Multiprocessors that a launch finds room on. A cluster lies in one part of the device (GPC), and their
/// numbers of multiprocessors are no multiples of four: an H200 runs 128 blocks in clusters of four in two
/// rounds, 96 in one.
double sms_for(const Launch& launch, double sms) { return launch.cluster < 4 ? sms : std::floor(0.91 * sms); }

double total_length(const Drawn& drawn) {
  double sum = 0;
  for (const auto& [length, pieces] : drawn.runs) sum += length * static_cast<double>(pieces);
  return sum;
}
/// When the last of `slots` blocks ends that begin together and draw these pieces.
double last_end(const Drawn& drawn, double slots) {
  std::map<double, std::int64_t> ends = {{0, static_cast<std::int64_t>(slots)}};  // when how many are free
  for (const auto& [length, pieces] : drawn.runs)
    for (std::int64_t left = pieces; left > 0;) {
      auto& [when, free] = *ends.begin();
      const std::int64_t taken = std::min(left, free);
      ends[when + length] += taken;
      left -= taken;
      if (taken == free)
        ends.erase(ends.begin());
      else
        free -= taken;
    }
  return ends.rbegin()->first;
}

}  // namespace

LaunchLoad load_of(const Op& op, const Variant& variant, const Problem& problem, const Config& config,
                   const DeviceFacts& facts) {
  const Cost cost = op.cost(problem);
  const double sms = std::max(1, facts.sms);
  LaunchLoad load{.work = std::max(cost.bytes, cost.flops / kFlopsPerByte),
                  .memory = cost.bytes >= 2 * cost.flops / kFlopsPerByte,
                  .blocks = sms,
                  .slots = sms,
                  .sms = sms,
                  .splits = static_cast<double>(std::max<std::int64_t>(1, config.get(kSplits, 1))),
                  .group = group_of(problem)};
  if (!variant.stages.empty() && variant.stages.front().launch) {
    const Launch launch = variant.stages.front().launch(problem, config);
    load.dealt = launch.dealt;
    load.blocks = 1.0 * launch.grid.x * launch.grid.y * launch.grid.z * (launch.per_sm ? sms : 1);
    load.sms = sms_for(launch, sms);
    load.slots = load.sms * (launch.per_sm ? launch.grid.x : blocks_per_sm(launch, facts));
    if (launch.pieces > 0) load.blocks = launch.pieces;
    if (launch.drawn) {
      const Drawn drawn = launch.drawn();
      const double work_of_length = cost.flops / kFlopsPerByte / drawn.asked;
      load.last_end = last_end(drawn, load.slots) * work_of_length;
      load.work = total_length(drawn) * work_of_length;
    }
  }
  return load;
}

TimeParts parts_of(const LaunchLoad& load) {
  const double merges = load.splits > 1 ? 1 : 0;
  if (load.last_end > 0) return {1, load.work, load.last_end, 0, 0, load.splits, merges};
  const double piece = load.work / load.blocks * load.dealt.longest,
               rounds = std::ceil(load.blocks / load.slots);
  return {1,
          load.work,
          std::ceil(load.blocks / load.sms) * piece,
          rounds * load.slots / load.sms * piece,
          rounds * std::min(load.dealt.trips, kMostTrips),
          load.splits,
          merges};
}

Place place_of(const LaunchLoad& load) {
  return {std::log2(load.blocks), std::log2(load.work / load.blocks), std::log2(load.splits),
          std::log2(load.group)};
}
double distance(const Place& a, const Place& b) {
  constexpr Place kWeights = {1, 1, 0.5, 1.5};
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += kWeights[i] * std::abs(a[i] - b[i]);
  return sum;
}

}  // namespace warptune
