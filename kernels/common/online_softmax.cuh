#pragma once
// The state of an online softmax. Source: Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018. Scores are in base-2 units: log2(e) is folded into the scale of q.k.
#include "kernels/common/numeric.cuh"
#include "kernels/common/softmax.cuh"

namespace warptune {

/// The maximum of a tile without scores: finite, so that the difference of two of them is 0 and not NaN.
inline constexpr float kNoScore = -1e30f;

/// Running maximum and sum of exp2(score - max). States of tiles combine by rescaling.
struct alignas(8) SoftmaxState {
  float max, sum;

  static __device__ __forceinline__ SoftmaxState none() { return {kNoScore, 0.0f}; }
  /// Raises the maximum to at least `score`; returns the factor that rescales everything accumulated so far.
  __device__ __forceinline__ float raise(float score) {
    const float raised = fmaxf(max, score);
    const float factor = exp2_fast(max - raised);
    max = raised;
    sum *= factor;
    return factor;
  }
  /// The weight of a score that is at most the maximum.
  __device__ __forceinline__ float weight(float score) const { return exp2_fast(score - max); }
};

}  // namespace warptune
