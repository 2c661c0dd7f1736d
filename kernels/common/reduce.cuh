#pragma once
// Sums and maxima over a warp (butterfly of shuffles) and a block. Every thread receives the result.
#include "kernels/common/numeric.cuh"

namespace warptune {

struct Sum {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  static __device__ __forceinline__ float combine(float a, float b) { return a + b; }
};
struct Max {
  static __device__ __forceinline__ float identity() { return -WARPTUNE_INFINITY; }
  static __device__ __forceinline__ float combine(float a, float b) { return fmaxf(a, b); }
};

/// Over groups of kWidth neighbouring lanes (a power of two).
template <class Op, int kWidth = 32>
__device__ __forceinline__ float warp_reduce(float x) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2)
    x = Op::combine(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

/// Over kBlock threads (a multiple of 32). All threads must call it; it may be called again at once.
template <class Op, int kBlock>
__device__ __forceinline__ float block_reduce(float x) {
  constexpr int kWarps = kBlock / 32;
  x = warp_reduce<Op>(x);
  if constexpr (kWarps > 1) {
    __shared__ float partial[kWarps];
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    x = warp_reduce<Op>(lane < kWarps ? partial[lane] : Op::identity());
  }
  return x;
}

}  // namespace warptune
