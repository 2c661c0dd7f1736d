#pragma once
// What happens to a warp's piece of scores between the two products: kMt x kNt fragments of 16 queries by 8
// keys (common/mma.cuh). `row` and `key` are those of the lane's first score.
#include "kernels/attention_prefill/sequence.cuh"

namespace warptune {

/// Scores in units of log2(e), bias included.
template <class T, class S, int kMt, int kNt>
__device__ __forceinline__ void add_bias(float (&s)[kMt][kNt][4], const ScoreBias<T, S>& bias, float to_log2,
                                         int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[mt][nt][i] = fmaf(s[mt][nt][i], to_log2, bias.at(row + mt * 16 + i / 2 * 8, key + nt * 8 + i % 2));
}

/// -infinity for keys that their query does not see; kPack neighbouring rows are heads of one query.
template <class S, int kPack, int kMt, int kNt>
__device__ __forceinline__ void hide_keys(float (&s)[kMt][kNt][4], const AttentionPrefillArgs& args,
                                          const Sequence& sequence, int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = (row + mt * 16 + r * 8) / kPack, seen = visible_keys<S::kCausal>(sequence, query);
      const int first = first_visible<S>(args, sequence, query);
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (key + nt * 8 + i >= seen || (S::kWindow && key + nt * 8 + i < first))
            s[mt][nt][2 * r + i] = -WARPTUNE_INFINITY;
    }
}

/// Raises the maximum of a row, in units of log2(e), where that of a tile is more than 2^8 above it: so it
/// seldom moves ("FlashAttention-4", 2025). Returns what scores are taken relative to; `shrink` is the factor
/// for all that was summed up relative to the last one: 1 where the maximum stays, however many tiles there
/// are.
__device__ __forceinline__ float raise_max(float& row_max, float most, float& shrink) {
  const float last = row_max;
  const bool moves = most > last + 8.0f;
  if (moves) row_max = most;
  const float offset = row_max == -WARPTUNE_INFINITY ? 0.0f : row_max;  // a row that saw no key yet
  shrink = moves ? exp2_fast(last - offset) : 1.0f;
  return offset;
}

/// o *= shrink, a warp's fragments of kMt x kNt and the factors of their rows. kAsk: whether any is not 1,
/// which they mostly are; a branch, which only many products are worth.
template <bool kAsk, int kMt, int kNt>
__device__ __forceinline__ void rescale(float (&o)[kMt][kNt][4], const float (&shrink)[kMt][2]) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt) {
    if (kAsk && !__any_sync(0xffffffffu, shrink[mt][0] != 1.0f || shrink[mt][1] != 1.0f)) continue;
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[mt][nt][i] *= shrink[mt][i / 2];
  }
}

/// Zeros for the weights that dropout drops.
template <class S, int kMt, int kNt>
__device__ __forceinline__ void drop_weights(float (&weights)[kMt][kNt][4], const Dropout<S>& dropout,
                                             int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt) dropout.apply(weights[mt][nt], row + mt * 16, key + nt * 8);
}

}  // namespace warptune
