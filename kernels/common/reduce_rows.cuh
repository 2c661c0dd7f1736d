#pragma once
// The block reduce of reduce.cuh over several rows at once: their shuffles overlap, and one barrier serves
// all.
#include "kernels/common/reduce.cuh"

namespace warptune {

/// Over kBlock threads (a multiple of 32), each of kRows values for itself. All threads must call it, once in
/// a kernel: nothing guards its shared memory against a second call.
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
