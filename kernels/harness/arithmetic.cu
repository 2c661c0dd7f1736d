// Idea: the fp32 ceiling: chains of independent fused multiply-adds in registers.
#include "harness/args.h"

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

}  // namespace warptune
