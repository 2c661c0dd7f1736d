// What racecheck says of the K/V pipeline of the decode kernels, reduced to one producer lane, one consumer
// warp and two stages: scripts/evidence/run.sh racecheck_pipeline runs it. Each case is a kernel of its own;
// the program prints the number of wrong sums and ends with 1 if a case with correct barriers has any.
#include <cstdio>
#include <cstdlib>

#include "kernels/common/tma.cuh"

using namespace warptune;

enum Case {
  kLaneArrives,  // all lanes read, __syncwarp(), lane 0 arrives at the empty barrier
  kAllArrive,    // every lane arrives
  kProxyFence,   // the same with fence.proxy.async of every lane before __syncwarp(), as the kernels
  kPlainStores,  // the first with ordinary stores of the producer lane for the bulk copy
  kEarlyArrive   // a race: every lane arrives before it reads
};
constexpr int kStages = 2, kFloats = 32, kTiles = 64;

/// Sums `tiles` tiles of kFloats floats: lane i of warp 0 adds element i of each. Warp 1 loads.
template <Case kCase>
__global__ void pipeline(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float buffer[kStages][kFloats];
  __shared__ Mbarrier full[kStages], empty[kStages];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(full + s);
      mbarrier_init(empty + s, kCase == kAllArrive || kCase == kEarlyArrive ? 32 : 1);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  float sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages;
    const unsigned phase = tile / kStages % 2;
    if (threadIdx.x >= 32) {  // producer warp
      if (lane > 0) break;
      mbarrier_wait(empty + stage, phase ^ 1);
      if (kCase == kPlainStores) {
        for (int i = 0; i < kFloats; ++i) buffer[stage][i] = in[tile * kFloats + i];
        mbarrier_arrive(full + stage);
      } else {
        mbarrier_arrive_expect_tx(full + stage, kFloats * sizeof(float));
        bulk_copy_evict_first(buffer[stage], in + tile * kFloats, kFloats * sizeof(float), full + stage);
      }
    } else {  // consumer warp
      mbarrier_wait(full + stage, phase);
      if (kCase == kEarlyArrive) mbarrier_arrive(empty + stage);
      sum += buffer[stage][lane];
      if (kCase == kProxyFence) fence_proxy_async();
      __syncwarp();
      if (kCase == kAllArrive || (kCase != kEarlyArrive && lane == 0)) mbarrier_arrive(empty + stage);
    }
  }
  if (threadIdx.x < 32) out[blockIdx.x * 32 + lane] = sum;
}

template <Case kCase>
int wrong_sums() {
  constexpr int kBlocks = 8;
  float *in, *out;
  cudaMallocManaged(&in, kTiles * kFloats * sizeof(float));
  cudaMallocManaged(&out, kBlocks * 32 * sizeof(float));
  float expected = 0;
  for (int t = 0; t < kTiles; ++t) {
    for (int i = 0; i < kFloats; ++i) in[t * kFloats + i] = static_cast<float>(t + 1);
    expected += static_cast<float>(t + 1);
  }
  pipeline<kCase><<<kBlocks, 64>>>(in, out, kTiles);
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    std::exit(2);
  }
  int wrong = 0;
  for (int i = 0; i < kBlocks * 32; ++i) wrong += out[i] != expected;
  return wrong;
}

int main(int argc, char** argv) {
  const int chosen = argc > 1 ? std::atoi(argv[1]) : 0;
  int (*const cases[])() = {wrong_sums<kLaneArrives>, wrong_sums<kAllArrive>, wrong_sums<kProxyFence>,
                            wrong_sums<kPlainStores>, wrong_sums<kEarlyArrive>};
  const int wrong = cases[chosen]();
  std::printf("%d\n", wrong);
  return chosen != kEarlyArrive && wrong > 0 ? 1 : 0;
}
