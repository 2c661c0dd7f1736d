#pragma once
// Softmax over pieces: each piece keeps its running maximum and the sum of exp2(score - maximum); pieces
// merge by rescaling. Scores are in base-2 units (log2e is folded into the scale of q.k). Source: Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018.
#include "kernels/common/exp2.cuh"
#include "kernels/common/numeric.cuh"

namespace warptune {

/// The maximum of a piece without scores: finite, so that the difference of two of them is 0 and not NaN.
inline constexpr float kNoScore = -1e30f;

struct alignas(8) SoftmaxState {
  float max, sum;

  static __device__ __forceinline__ SoftmaxState none() { return {kNoScore, 0.0f}; }
  /// Raises the maximum to cover `score`; returns the factor for everything summed so far.
  __device__ __forceinline__ float raise(float score) {
    const float raised = fmaxf(max, score);
    const float factor = exp2_fast(max - raised);
    max = raised;
    sum *= factor;
    return factor;
  }
  /// The weight of a score that the maximum covers.
  __device__ __forceinline__ float weight(float score) const { return exp2_fast(score - max); }
};

}  // namespace warptune
