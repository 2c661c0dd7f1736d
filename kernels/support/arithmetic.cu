// Measured peaks of arithmetic: chains of independent operations on values that stay on the chip.
// fma_chains: fp32 FMA on CUDA cores. matrix_chains: bf16 tensor cores, wgmma m64n128k16 with both operands
//   in shared memory (sm_90a), mma.sync m16n8k16 elsewhere.
#include "kernels/common/mma.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/support/args.h"

namespace warptune {

template <int kChains, int kSteps>
__global__ void __launch_bounds__(256) fma_chains(StreamArgs args) {
  float x[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) x[i] = threadIdx.x + i;
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) x[i] = fmaf(x[i], 0.999f, 0.5f);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += x[i];
  if (sum == -1.0f) *static_cast<float*>(args.to) = sum;  // keeps the chains alive
}

/// A block of 256 threads computes kSteps * 8 * 2 products of 64 x 128 x 16 on random bf16 tiles.
template <int kSteps>
__global__ void __launch_bounds__(256) matrix_chains(StreamArgs args) {
  float sum = 0;
#if WARPTUNE_WGMMA
  constexpr int kTile = (64 + 128) * 16 * 2 / 16;  // A and B of one wgmma, in vectors of 16 bytes
  __shared__ __align__(128) uint4 tiles[8 * kTile];
  for (int i = threadIdx.x; i < 8 * kTile; i += 256) tiles[i] = static_cast<const uint4*>(args.from)[i];
  fence_proxy_async();
  __syncthreads();
  float d[64] = {};
  for (int step = 0; step < kSteps; ++step) {
    warpgroup_arrive();
#pragma unroll
    for (int i = 0; i < 8; ++i)
      wgmma<bf16, 128>(d, wgmma_descriptor(tiles + i * kTile, 128, 256),
                       wgmma_descriptor(tiles + i * kTile + 128, 128, 256), true);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
#else
  const unsigned* from = static_cast<const unsigned*>(args.from) + threadIdx.x;
  unsigned a[2][4], b[8][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = from[i * 256];
#pragma unroll
  for (int i = 0; i < 16; ++i) b[i / 2][i % 2] = from[(8 + i) * 256];
  float d[2][8][4] = {};
  for (int step = 0; step < kSteps * 8; ++step) {  // per warp 32 x 64 x 16
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) mma_m16n8k16<bf16>(d[i][j], a[i], b[j][0], b[j][1]);
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i / 32][i / 4 % 8][i % 4];
#endif
  if (sum == -1.0f) *static_cast<float*>(args.to) = sum;  // keeps the chains alive
}

}  // namespace warptune
