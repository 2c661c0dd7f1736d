// How long a load of x waits for bulk copies of weights. A block per SM issues copies of weights that no
// cache holds, all at once or a few at a time; a warp of its own loads 512 bytes from the L2 again and again.
// The CSV goes to stdout: means over all blocks of 20 launches, in SM cycles after the start of a block.
//   warps, copies: warps that issue, and copies of each; bytes: of a copy
//   in_flight: copies of a warp in flight at most; lanes: all copies are issued by lanes of one warp
//   issued: the last copy is issued; arrived: all have arrived
//   at_1, load_1, ... at_6, load_6: when a load of x begins, and how long it takes
// Build and run: scripts/evidence/run.sh copy_queue
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "kernels/common/tma.cuh"
#include "scripts/evidence/cuda_handles.cuh"

namespace warptune::evidence {
namespace {

constexpr int kLoads = 6, kLaunches = 20, kWarmUps = 2, kSharedBytes = 220 * 1024, kBarriers = 200 * 1024;
constexpr long long kWeightBytes = 8LL << 30, kXVectors = 64 * 32;

struct Pattern {
  int warps, copies, bytes, in_flight;
  bool lanes;
};
struct Times {
  unsigned long long issued, arrived;
  long long at[kLoads], load[kLoads];
};

__global__ void touch(float4* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = make_float4(1, 2, 3, 4); }

/// weights: [gridDim.x, warps, copies, bytes]; x: [kXVectors]. The last warp of a block loads x.
__global__ void __launch_bounds__(1024)
    copy_and_load(const char* weights, const float4* x, Times* times, Pattern pattern) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ long long start;
  __shared__ unsigned long long issued, arrived;
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(shared + kBarriers);  // [warps, copies]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < pattern.warps * pattern.copies; ++i) mbarrier_init(full + i);
    mbarrier_init_fence();
    issued = arrived = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) start = clock64();
  __syncthreads();
  const auto cycles = [&] { return clock64() - start; };
  const auto issue = [&](int w) {
    for (int c = 0; c < pattern.copies; ++c) {
      const int copy = w * pattern.copies + c;
      if (pattern.in_flight > 0 && c >= pattern.in_flight) mbarrier_wait(full + copy - pattern.in_flight, 0);
      mbarrier_arrive_expect_tx(full + copy, pattern.bytes);
      bulk_copy_evict_first(
          shared + copy * pattern.bytes,
          weights +
              (static_cast<long long>(blockIdx.x) * pattern.warps * pattern.copies + copy) * pattern.bytes,
          pattern.bytes, full + copy);
    }
  };
  Times& mine = times[blockIdx.x];
  if (warp < pattern.warps) {
    if (pattern.lanes ? warp == 0 && lane < pattern.warps : lane == 0) issue(pattern.lanes ? lane : warp);
    __syncwarp();
    if (lane == 0 && (warp == 0 || !pattern.lanes))
      atomicMax(&issued, static_cast<unsigned long long>(cycles()));
    for (int c = 0; c < pattern.copies; ++c) mbarrier_wait(full + warp * pattern.copies + c, 0);
    if (lane == 0) atomicMax(&arrived, static_cast<unsigned long long>(cycles()));
  } else {
    for (int i = 0; i < kLoads; ++i) {
      const long long begin = cycles();
      const float4 v = __ldcg(x + (i * 37 + blockIdx.x) % 64 * 32 + lane);
      if (v.x != 1) __trap();  // waits for the load
      const long long end = cycles();
      if (lane == 0) mine.at[i] = begin, mine.load[i] = end - begin;
      while (cycles() - end < 200) {
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) mine.issued = issued, mine.arrived = arrived;
}

int run() {
  const int sms = static_cast<int>(sm_count());
  CHECKED(cudaFuncSetAttribute(copy_and_load, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const auto weights = allocate<char>(kWeightBytes);
  const auto x = allocate<float4>(kXVectors);
  const auto times = allocate<Times>(sms);
  std::vector<Times> of_block(static_cast<std::size_t>(sms));
  long long offset = 0;

  std::printf("warps,copies,bytes,in_flight,lanes,issued,arrived");
  for (int i = 1; i <= kLoads; ++i) std::printf(",at_%d,load_%d", i, i);
  std::printf("\n");
  std::vector<Pattern> patterns = {{1, 1, 16, 0, false}};
  for (const int bytes : {512, 1024, 2048, 4096})
    patterns.push_back({8, 192 * 1024 / 8 / bytes, bytes, 0, false});
  for (const int bytes : {1024, 2048, 4096, 8192})
    patterns.push_back({8, 192 * 1024 / 8 / bytes, bytes, 0, true});
  for (const int copies : {12, 8, 6, 4}) patterns.push_back({8, copies, 1024, 0, false});
  for (const int in_flight : {4, 6, 8, 12, 16}) patterns.push_back({8, 24, 1024, in_flight, false});
  for (const int in_flight : {1, 2, 3, 4}) patterns.push_back({8, 6, 4096, in_flight, false});
  for (const Pattern& p : patterns) {
    std::array<double, 2 + 2 * kLoads> sum = {};
    const long long bytes = static_cast<long long>(sms) * p.warps * p.copies * p.bytes;
    for (int launch = 0; launch < kWarmUps + kLaunches; ++launch, offset += bytes) {
      if (offset + bytes > kWeightBytes) offset = 0;
      touch<<<4, kXVectors / 4>>>(x.get());
      copy_and_load<<<sms, (p.warps + 1) * 32, kSharedBytes>>>(weights.get() + offset, x.get(), times.get(),
                                                               p);
      CHECKED(cudaGetLastError());
      CHECKED(cudaMemcpy(of_block.data(), times.get(), of_block.size() * sizeof(Times), cudaMemcpyDefault));
      if (launch < kWarmUps) continue;
      for (const Times& t : of_block) {
        sum[0] += static_cast<double>(t.issued);
        sum[1] += static_cast<double>(t.arrived);
        for (std::size_t i = 0; i < kLoads; ++i) {
          sum[2 + 2 * i] += static_cast<double>(t.at[i]);
          sum[3 + 2 * i] += static_cast<double>(t.load[i]);
        }
      }
    }
    std::printf("%d,%d,%d,%d,%d", p.warps, p.copies, p.bytes, p.in_flight, p.lanes);
    for (const double s : sum) std::printf(",%.0f", s / (kLaunches * sms));
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace warptune::evidence

int main() { return warptune::evidence::run_program("copy_queue", warptune::evidence::run); }
