#pragma once
// Softmax in base 2, and the softmax of a row in memory by a block.
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Scores times log2(e) are exponents of 2.
inline constexpr float kLog2e = 1.4426950408889634f;

/// 2^x by the special function unit: about 2 units in the last place; 0 for -infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Replaces the first `seen` fp32 scores of a row, times `scale`, by their softmax as T, from the start of
/// the row; elements from `seen` to `count` become 0. The row is 16-byte aligned and has room for a multiple
/// of 4 scores.
template <class T, int kBlock>
__device__ __forceinline__ void softmax_row_in_place(float* scores, int seen, int count, float scale) {
  scale *= kLog2e;
  float max_score = -WARPTUNE_INFINITY;
  for (int i = 4 * threadIdx.x; i < seen; i += 4 * kBlock) {
    const Vec<float, 4> x = load_vec<4>(scores + i);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < seen) max_score = fmaxf(max_score, x[j]);
  }
  max_score = block_reduce<Max, kBlock>(max_score) * scale;
  float sum = 0;
  for (int i = 4 * threadIdx.x; i < seen; i += 4 * kBlock) {
    const Vec<float, 4> x = load_vec<4>(scores + i);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < seen) sum += exp2_fast(fmaf(x[j], scale, -max_score));
  }
  const float inverse = 1.0f / block_reduce<Sum, kBlock>(sum);
  T* const weights = reinterpret_cast<T*>(scores);
  for (int first = 0; first < count; first += 4 * kBlock) {
    const int i = first + 4 * threadIdx.x;
    Vec<float, 4> x;
    if (i < seen) x = load_vec<4>(scores + i);
    // A narrower T overwrites scores of this and earlier vectors: all must be loaded first.
    if constexpr (sizeof(T) < sizeof(float)) __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j)
      x[j] = i + j < seen ? exp2_fast(fmaf(x[j], scale, -max_score)) * inverse : 0.0f;
    if (i < count) store_vec<4>(weights + i, from_float<T>(x));
  }
}

}  // namespace warptune
