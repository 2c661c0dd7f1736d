#include "harness/select/launch_load.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace warptune {
namespace {

constexpr double kMaxTrips = 4;  // a warp waits for its first tiles; later ones arrive while it computes

/// Registers per thread that ptxas allocates: it stays 10 below an estimate, and within the launch bounds.
int allocated_registers(const LaunchResources& needs) {
  if (needs.registers == 0 || needs.threads_per_sm == 0) return needs.registers;
  return static_cast<int>(std::min<std::int64_t>(needs.registers - 10, 65536 / needs.threads_per_sm));
}

/// The blocks of a launch that fit on an SM, estimated before compilation: registers count only if the
/// variant estimates them.
double blocks_per_sm(const Launch& launch, int registers, const DeviceFacts& facts) {
  constexpr std::int64_t kReserved = 1024;  // bytes of shared memory that CUDA reserves per block
  constexpr std::int64_t kUnit = 8;         // granularity of register allocation per thread
  const auto threads = static_cast<std::int64_t>(launch.block.x) * launch.block.y * launch.block.z;
  std::int64_t blocks = std::min(facts.shared_per_sm / (launch.shared_bytes + kReserved),
                                 facts.threads_per_sm / std::max<std::int64_t>(1, threads));
  if (registers > 0)
    blocks = std::min(blocks, facts.registers_per_sm / (ceil_div(registers, kUnit) * kUnit * threads));
  return static_cast<double>(std::clamp<std::int64_t>(blocks, 1, 32));
}

double total_length(const std::vector<WorkDistribution::TileRun>& runs) {
  double sum = 0;
  for (const auto& [length, tiles] : runs) sum += length * static_cast<double>(tiles);
  return sum;
}

/// The end of the last of `slots` blocks that start together and fetch these tiles from a dynamic scheduler.
double makespan(const std::vector<WorkDistribution::TileRun>& runs, double slots) {
  std::map<double, std::int64_t> ends = {
      {0, static_cast<std::int64_t>(slots)}};  // blocks by end of their last tile
  for (const auto& [length, tiles] : runs)
    for (std::int64_t left = tiles; left > 0;) {
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
  const double sms = std::max(1, facts.sms), flops_per_byte = facts.flops_per_byte();
  LaunchLoad load{.work = std::max(cost.bytes, cost.flops / flops_per_byte),
                  .memory_bound = cost.bytes >= 2 * cost.flops / flops_per_byte,
                  .tiles = sms,
                  .slots = sms,
                  .sms = sms,
                  .splits = static_cast<double>(
                      std::max<std::int64_t>(1, variant.value_of(ParameterRole::splits, config, 1))),
                  .sharing = op.sharing ? op.sharing(problem) : 1};
  if (variant.stages.empty() || !variant.stages.front().launch) return load;
  const Launch launch = launch_of(variant.stages.front(), problem, config, facts);
  const WorkDistribution work =
      variant.work_distribution ? variant.work_distribution(problem, config) : WorkDistribution{};
  const LaunchResources needs = variant.resources ? variant.resources(problem, config) : LaunchResources{};
  load.imbalance = work.imbalance;
  load.tiles_of_busiest_warp = work.tiles_of_busiest_warp;
  load.sms = facts.sms_for_clusters(launch.cluster);
  load.slots =
      load.sms * (launch.per_sm ? launch.grid.x : blocks_per_sm(launch, allocated_registers(needs), facts));
  load.tiles = work.tiles > 0
                   ? work.tiles
                   : 1.0 * launch.grid.x * launch.grid.y * launch.grid.z * (launch.per_sm ? sms : 1);
  if (!work.runs.empty()) {
    const double work_of_length = cost.flops / flops_per_byte / work.unpadded_length;
    load.makespan = makespan(work.runs, load.slots) * work_of_length;
    load.work = total_length(work.runs) * work_of_length;
  }
  return load;
}

TimeParts time_parts(const LaunchLoad& load) {
  const double is_split = load.splits > 1 ? 1 : 0;
  if (load.makespan > 0) return {1, load.work, load.makespan, 0, 0, load.splits, is_split};
  const double tile = load.work / load.tiles * load.imbalance, waves = std::ceil(load.tiles / load.slots);
  return {1,
          load.work,
          std::ceil(load.tiles / load.sms) * tile,
          waves * load.slots / load.sms * tile,
          waves * std::min(load.tiles_of_busiest_warp, kMaxTrips),
          load.splits,
          is_split};
}

LoadPoint point_of(const LaunchLoad& load) {
  return {std::log2(load.tiles), std::log2(load.work / load.tiles), std::log2(load.splits),
          std::log2(load.sharing)};
}

double distance(const LoadPoint& a, const LoadPoint& b) {
  constexpr LoadPoint kWeights = {1, 1, 0.5, 1.5};
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += kWeights[i] * std::abs(a[i] - b[i]);
  return sum;
}

}  // namespace warptune
