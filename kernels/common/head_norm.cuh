#pragma once
// RMSNorm of a head of q or k before RoPE: x / sqrt(mean(x^2) + eps) * weight.
#include "kernels/common/numeric.cuh"

namespace warptune {

/// 1 / sqrt(mean(x^2) + eps), from the sum of the squares of a head.
template <int kHeadDim>
__device__ __forceinline__ float inverse_rms(float squares, float eps) {
  return rsqrtf(squares / kHeadDim + eps);
}

/// Normalizes a thread's elements of a head. `sum` adds up over the threads that share the head; weight(i)
/// belongs to x[i].
template <int kHeadDim, int kCount, class Sum, class Weight>
__device__ __forceinline__ void normalize_head(float (&x)[kCount], float eps, Sum sum, Weight weight) {
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) squares += x[i] * x[i];
  const float scale = inverse_rms<kHeadDim>(sum(squares), eps);
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] *= scale * weight(i);
}

}  // namespace warptune
