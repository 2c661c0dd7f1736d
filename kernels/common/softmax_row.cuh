#pragma once
// Softmax of a row in memory, by a block.
#include "kernels/common/exp2.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// The softmax of `seen` fp32 scores times `scale`, as T from where the row begins; what follows up to
/// `count` becomes 0. The row begins at 16 bytes and has room for a multiple of 4 scores.
template <class T, int kBlock>
__device__ __forceinline__ void softmax_row_in_place(float* scores, int seen, int count, float scale) {
  scale *= kLog2e;
  float most = -WARPTUNE_INFINITY;
  for (int i = 4 * threadIdx.x; i < seen; i += 4 * kBlock) {
    const Vec<float, 4> x = load_vec<4>(scores + i);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < seen) most = fmaxf(most, x[j]);
  }
  most = block_reduce<Max, kBlock>(most) * scale;
  float sum = 0;
  for (int i = 4 * threadIdx.x; i < seen; i += 4 * kBlock) {
    const Vec<float, 4> x = load_vec<4>(scores + i);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < seen) sum += exp2_fast(fmaf(x[j], scale, -most));
  }
  const float inverse = 1.0f / block_reduce<Sum, kBlock>(sum);
  T* const weights = reinterpret_cast<T*>(scores);
  for (int first = 0; first < count; first += 4 * kBlock) {
    const int i = first + 4 * threadIdx.x;
    Vec<float, 4> x;
    if (i < seen) x = load_vec<4>(scores + i);
    // A narrower T is written over scores of this piece and the ones before.
    if constexpr (sizeof(T) < sizeof(float)) __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = i + j < seen ? exp2_fast(fmaf(x[j], scale, -most)) * inverse : 0.0f;
    if (i < count) store_vec<4>(weights + i, from_float<T>(x));
  }
}

}  // namespace warptune
