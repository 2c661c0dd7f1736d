// Compares the memory pools: caching, cudaMallocAsync, cudaMalloc, and host memory passed through, over
// patterns of requests. One iteration is the whole pattern; `per_request` is its time per allocate + release.
#include <benchmark/benchmark.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/device/device.h"
#include "harness/device/memory_pool.h"
#if WARPTUNE_HAS_CUDA
#include "harness/device/cuda_pools.h"
#endif

namespace warptune {
namespace {

using MakePool = std::function<std::unique_ptr<MemoryPool>()>;

struct Pattern {
  const char* name;
  std::size_t least, most;  // sizes are log-uniform between them
};
constexpr Pattern kPatterns[] = {
    {"small", 1 << 8, 1 << 18}, {"large", 1 << 21, 1 << 26}, {"mixed", 1 << 8, 1 << 26}};
constexpr int kRequests = 256, kLive = 32;

std::vector<std::size_t> sizes_of(const Pattern& pattern) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(std::log2(pattern.least), std::log2(pattern.most));
  std::vector<std::size_t> sizes(kRequests);
  for (std::size_t& s : sizes) s = static_cast<std::size_t>(std::exp2(exponent(random)));
  return sizes;
}

/// Keeps kLive requests alive; each new one replaces a random other.
void run_pattern(benchmark::State& state, const MakePool& make, const Pattern& pattern) {
  const auto sizes = sizes_of(pattern);
  const auto pool = make();
  for (auto _ : state) {
    std::mt19937 random(11);
    std::vector<void*> live(kLive, nullptr);
    for (const std::size_t bytes : sizes) {
      void*& slot = live[random() % kLive];
      if (slot) pool->release(slot);
      slot = pool->allocate(bytes);
    }
    for (void* data : live)
      if (data) pool->release(data);
  }
  const PoolStats stats = pool->stats();
  state.counters["per_request"] = benchmark::Counter(
      kRequests, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["miss_pct"] =
      100.0 * static_cast<double>(stats.misses) / static_cast<double>(stats.requests);
  state.counters["reserved_mib"] = static_cast<double>(stats.reserved >> 20);
}

void register_all() {
  std::vector<std::pair<std::string, MakePool>> pools{{"host", make_host_pool}};
#if WARPTUNE_HAS_CUDA
  if (cuda_device_count() > 0) {
    const auto first =
        make_cuda_pool(PoolKind::cuda_plain, 0);  // the first call makes the context: no pool's time
    first->release(first->allocate(1));
    pools.emplace_back("caching", [] { return make_cuda_pool(PoolKind::caching, 0); });
    pools.emplace_back("cuda_async", [] { return make_cuda_pool(PoolKind::cuda_async, 0); });
    pools.emplace_back("cuda_plain", [] { return make_cuda_pool(PoolKind::cuda_plain, 0); });
  }
#endif
  for (const Pattern& pattern : kPatterns)
    for (const auto& [name, make] : pools)
      benchmark::RegisterBenchmark((std::string(pattern.name) + "/" + name).c_str(), run_pattern, make,
                                   pattern)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace warptune

int main(int argc, char** argv) {
  warptune::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
