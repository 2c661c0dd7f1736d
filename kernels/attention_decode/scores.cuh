#pragma once
// What is added to the scores of kHeads query heads: nothing, a slope times the distance (ALiBi), or a bias.
#include "kernels/attention_decode/problem.cuh"
#include "kernels/common/online_softmax.cuh"

namespace warptune {

template <class P, int kHeads>
struct AddedScores {
  using T = typename P::T;
  float slopes[kHeads];  // times log2e
  int last;              // key
  const T* rows;
  long long capacity;

  __device__ __forceinline__ AddedScores(const AttentionDecodeArgs& args, long long b, int first_head,
                                         int length)
      : last(length - 1), capacity(args.capacity) {
    if constexpr (P::kBias == kBiasAlibi) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) slopes[h] = args.alibi_slopes[first_head + h] * kLog2e;
    }
    if constexpr (P::kBias == kBiasAdditive)
      rows = static_cast<const T*>(args.score_bias) + (b * P::kQHeads + first_head) * capacity;
  }
  /// A score with its bias, both in base-2 units.
  __device__ __forceinline__ float operator()(float score, int h, int key) const {
    if constexpr (P::kBias == kBiasAlibi) return score + slopes[h] * static_cast<float>(key - last);
    if constexpr (P::kBias == kBiasAdditive) return score + to_float(rows[h * capacity + key]) * kLog2e;
    return score;
  }
};

}  // namespace warptune
