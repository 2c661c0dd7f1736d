#include "harness/device/launch_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/core/error.h"
#include "harness/core/variant_values.h"
#include "harness/device/cubin_file.h"

namespace warptune {
namespace {

constexpr std::uint64_t kRegistersPerBlock = 65536;
constexpr unsigned kMaxCluster = 16;  // more than 8 are not portable

std::uint64_t volume(const Dim3& d) { return std::uint64_t{d.x} * d.y * d.z; }

std::string text_of(const Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); }

bool same(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

void check_cluster(const std::string& kernel, const Dim3& grid, const Dim3& cluster,
                   const DeviceFacts& facts) {
  if (volume(cluster) <= 1) return;
  if (facts.arch_number() < 90)
    throw ResourceError("{} has clusters of {} blocks; {} has none", kernel, volume(cluster), facts.arch);
  if (volume(cluster) > kMaxCluster)
    throw ResourceError("{} has clusters of {} blocks; at most {} are possible", kernel, volume(cluster),
                        kMaxCluster);
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    throw ResourceError("{} has a grid of {} blocks, which is no multiple of its clusters of {}", kernel,
                        text_of(grid), text_of(cluster));
}

}  // namespace

Dim3 launched_grid(const Launch& launch, const DeviceFacts& facts) {
  Dim3 grid = launch.grid;
  if (!launch.per_sm) return grid;
  auto blocks = std::uint64_t{grid.x} * static_cast<unsigned>(facts.sms);
  if (launch.max_blocks > 0) blocks = std::min(blocks, static_cast<std::uint64_t>(launch.max_blocks));
  if (launch.cluster > 1) blocks -= blocks % launch.cluster;
  grid.x = static_cast<unsigned>(std::min<std::uint64_t>(blocks, std::numeric_limits<unsigned>::max()));
  return grid;
}

void check_geometry(const std::string& kernel, const Launch& launch, const DeviceFacts& facts) {
  Launch launched = launch;
  launched.grid = launched_grid(launch, facts);
  if (const auto limit = exceeded_launch_limit(launched)) throw ResourceError(kernel + " " + *limit);
  check_cluster(kernel, launched.grid, {launch.cluster, 1, 1}, facts);
}

void check_launch(const std::string& kernel, const Cubin& cubin, const Launch& launch,
                  const DeviceFacts& facts) {
  const std::uint64_t threads = volume(launch.block);
  const std::int64_t shared = cubin.static_shared_bytes + launch.shared_bytes;
  if (shared > facts.shared_per_block)
    throw ResourceError("{} needs {} bytes of shared memory; {} has {} per block", kernel, shared, facts.arch,
                        facts.shared_per_block);
  if (static_cast<std::uint64_t>(ceil_div(cubin.registers, 8) * 8) * threads > kRegistersPerBlock)
    throw ResourceError("{} needs {} registers in each of {} threads; a block has {}", kernel,
                        cubin.registers, threads, kRegistersPerBlock);
  const auto kernels = kernels_of_cubin(cubin.code);
  const auto code = std::ranges::find(kernels, cubin.entry, &KernelCode::name);
  if (code == kernels.end()) return;
  if (code->max_threads > 0 && threads > code->max_threads)
    throw ResourceError("{} was compiled for at most {} threads per block (__launch_bounds__); it has {}",
                        kernel, code->max_threads, threads);
  if (volume(code->block) > 0 && !same(code->block, launch.block))
    throw ResourceError("{} was compiled for blocks of {} (__block_size__); it has {}", kernel,
                        text_of(code->block), text_of(launch.block));
  if (code->max_cluster > 0 && launch.cluster > code->max_cluster)
    throw ResourceError("{} was compiled for clusters of at most {} blocks (__launch_bounds__); it has {}",
                        kernel, code->max_cluster, launch.cluster);
  if (volume(code->cluster) == 0) return;
  if (launch.cluster > 1 && !same(code->cluster, {launch.cluster, 1, 1}))
    throw ResourceError("{} was compiled for clusters of {} (__cluster_dims__); it has {}", kernel,
                        text_of(code->cluster), text_of({launch.cluster, 1, 1}));
  if (!code->grid_counts_clusters) check_cluster(kernel, launched_grid(launch, facts), code->cluster, facts);
}

void check_residency(const std::string& kernel, const Launch& launch, int blocks_per_sm,
                     const DeviceFacts& facts) {
  if (!launch.cooperative) return;
  const std::uint64_t blocks = volume(launched_grid(launch, facts)),
                      most = static_cast<std::uint64_t>(blocks_per_sm) * static_cast<unsigned>(facts.sms);
  if (blocks > most)
    throw ResourceError("{} is a cooperative launch of {} blocks; {} runs {} at once, {} on each of {} SMs",
                        kernel, blocks, facts.name, most, blocks_per_sm, facts.sms);
}

}  // namespace warptune
