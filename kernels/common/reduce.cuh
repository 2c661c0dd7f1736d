#pragma once
// Reductions (sum, maximum) of a warp, by a butterfly of shuffles, and of a block. Every thread receives
// the result.
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

/// Reduces over groups of kWidth neighboring lanes (a power of two).
template <class Op, int kWidth = 32>
__device__ __forceinline__ float warp_reduce(float x) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2)
    x = Op::combine(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

/// Reduces kRows values of each lane (a power of two, at most 32) at once, which takes about kRows shuffles.
/// Lane i receives the result of row i % kRows.
template <class Op, int kRows>
__device__ __forceinline__ float warp_reduce_rows(float (&x)[kRows]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int rows = kRows / 2; rows > 0; rows /= 2)
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const bool keeps_upper = (lane & rows) != 0;
      const float given = keeps_upper ? x[r] : x[r + rows], kept = keeps_upper ? x[r + rows] : x[r];
      x[r] = Op::combine(kept, __shfl_xor_sync(0xffffffffu, given, rows));
    }
#pragma unroll
  for (int offset = kRows; offset < 32; offset *= 2)
    x[0] = Op::combine(x[0], __shfl_xor_sync(0xffffffffu, x[0], offset));
  return x[0];
}

/// Reduces over kBlock threads (a multiple of 32). All threads must call it; calls may follow each other
/// without a barrier between them.
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

/// Reduces kRows values of each thread at once over kBlock threads (a multiple of 32): the shuffles of the
/// rows overlap, and one barrier serves all rows. All threads must call it, and only once in a kernel: no
/// barrier protects its shared memory against a second call.
template <class Op, int kBlock, int kRows>
__device__ __forceinline__ void block_reduce_rows(float (&x)[kRows]) {
  constexpr int kWarps = kBlock / 32;
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = warp_reduce<Op>(x[r]);
  if constexpr (kWarps > 1) {
    __shared__ float partial[kRows][kWarps];
    const int lane = threadIdx.x % 32;
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) partial[r][threadIdx.x / 32] = x[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = warp_reduce<Op>(lane < kWarps ? partial[r][lane] : Op::identity());
  }
}

}  // namespace warptune
