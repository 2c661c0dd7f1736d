#pragma once
// Idea: the scores of a tile of keys as warpgroup products leave them, two rows a thread, become
// probabilities in place. Maxima stay until they would grow by more than 2^8, so that the output is seldom
// rescaled ("FlashAttention-4", 2025). Scores lie in registers as those of m16n8 products do, so that bias
// and dropout are flash_mma's; an additive bias is on its way under the products.
#include "kernels/attention_prefill/score_tile.cuh"
#include "kernels/attention_prefill/work_list.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/common/wgmma.cuh"

namespace warptune {

/// The largest score of each of a thread's rows, and the sum of their probabilities relative to it.
struct RowSums {
  float max[2], sum[2];
};

/// Rows `row` and `row` + 8 of each item; of its tiles of keys the thread's are 2 * (lane % 4), the one after
/// and so on in steps of 8.
template <class T, class S, int kTileN>
struct RowSoftmax {
  static constexpr float kSlack = 8;  // a maximum may be 2^kSlack too small

  const AttentionPrefillArgs& args;
  const int lane, row;
  const float scale, slack;
  float s[kTileN / 2];
  RowSums sums;
  float offset[2];  // of the scores of a tile, in units of log2(e)
  float shrink[2];  // what the output is yet to be multiplied with
  int seen[2];      // keys below the last that a row sees, counted from this thread's first of the tile
  ScoreBias<T, S> bias;
  Dropout<S> dropout;
  int query, key;                                  // of the first score; for bias and dropout
  unsigned biases[S::kAdditive ? kTileN / 4 : 1];  // of the tile, on their way under the products

  __device__ __forceinline__ RowSoftmax(const AttentionPrefillArgs& args, int lane, int row)
      : args(args),
        lane(lane),
        row(row),
        scale(S::kBias ? 1.0f : args.scale * kLog2e),
        slack(kSlack / scale) {}

  /// Before the products of the first tile of an item, its last.
  __device__ __forceinline__ void begin(const Work& work) {
    const int first_key = work.last_tile() * kTileN + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sums.max[r] = -WARPTUNE_INFINITY, sums.sum[r] = 0;
      seen[r] = visible_keys<S::kCausal>(work.sequence, work.first_row + row + 8 * r) - first_key;
    }
    query = work.first_row + row, key = first_key;
    bias = ScoreBias<T, S>(args, work.sequence, work.head);
    dropout = Dropout<S>(args, work.batch, work.head);
    if constexpr (S::kAdditive) bias.template fetch<false>(biases, query, key);
  }
  /// Before the products of the tile below.
  template <bool kMask>
  __device__ __forceinline__ void go_down() {
    if constexpr (kMask) seen[0] += kTileN, seen[1] += kTileN;
    key -= kTileN;
    if constexpr (S::kAdditive) bias.template fetch<true>(biases, query, key);
  }

  /// The scores as fragments of a warp's 16 queries by 8 keys.
  __device__ __forceinline__ auto fragments() -> float (&)[1][kTileN / 8][4] {
    return reinterpret_cast<float(&)[1][kTileN / 8][4]>(s);
  }
  __device__ __forceinline__ void add_biases() {
#pragma unroll
    for (int i = 0; i < kTileN / 4; ++i) {
      const T low{static_cast<unsigned short>(biases[i])}, high{static_cast<unsigned short>(biases[i] >> 16)};
      s[2 * i] = fmaf(s[2 * i], args.scale * kLog2e, to_float(low) * kLog2e);
      s[2 * i + 1] = fmaf(s[2 * i + 1], args.scale * kLog2e, to_float(high) * kLog2e);
    }
  }
  /// Masks scores that are not seen, and moves the maxima on.
  template <bool kMask>
  __device__ __forceinline__ void find_maxima() {
    if constexpr (S::kAlibi) add_bias(fragments(), bias, args.scale * kLog2e, query, key);
    if constexpr (S::kAdditive) add_biases();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kMask) {
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) {
          const int key = i / 2 * 8 + i % 2;
          if (key >= seen[r] || (S::kWindow && key < seen[r] - args.window))
            s[i / 2 * 4 + r * 2 + i % 2] = -WARPTUNE_INFINITY;
        }
      }
      float& row_max = sums.max[r];
      float most[2] = {row_max, row_max};
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i) most[i % 2] = fmaxf(most[i % 2], s[i / 2 * 4 + r * 2 + i % 2]);
      float top = fmaxf(most[0], most[1]);
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const bool moves = top > row_max + slack;
      if (!moves) top = row_max;
      // a row that saw no key yet has no maximum
      const bool saw_none = (kMask || S::kAdditive) && top == -WARPTUNE_INFINITY;
      offset[r] = saw_none ? 0.0f : top * scale;
      shrink[r] = moves ? exp2_fast(fmaf(row_max, scale, -offset[r])) : 1.0f;
      row_max = top;
      sums.sum[r] *= shrink[r];
    }
  }
  /// Scores become probabilities; maxima and sums go on.
  template <bool kMask>
  __device__ __forceinline__ void soften() {
    warpgroup_fence_operand(s);
    find_maxima<kMask>();
    float sum[2][2] = {};
#pragma unroll
    for (int i = 0; i < kTileN / 2; ++i) {
      const int r = i / 2 % 2;
      s[i] = exp2_fast(fmaf(s[i], scale, -offset[r]));
      sum[r][i % 2] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) sums.sum[r] += sum[r][0] + sum[r][1];
    if constexpr (S::kDropout) drop_weights(fragments(), dropout, query, key);
    warpgroup_fence_operand(s);
  }
  /// The probabilities as what the product with V reads from registers.
  __device__ __forceinline__ void pack(unsigned (&p)[kTileN / 16][4]) const {
#pragma unroll
    for (int i = 0; i < kTileN / 4; ++i) p[i / 4][i % 4] = pack2<T>(s[2 * i], s[2 * i + 1]);
  }
  /// The output so far, relative to the new maxima.
  template <int kCount>
  __device__ __forceinline__ void rescale(float (&o)[kCount]) const {
    if (!__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) o[i] *= shrink[i / 2 % 2];
  }
  /// What becomes of an item's sums: lse, and by what the rows of its output are to be multiplied.
  __device__ __forceinline__ void finish(const Work& work, const RowSums& last, float (&inverse)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = last.sum[r];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      inverse[r] = normalizer<S>(args, sum);
      const int at = row + 8 * r;
      if (S::kLse && lane % 4 == 0 && work.first_row + at < ceil_div(args.q_len, 32) * 32)
        lse_rows<S>(args, work.batch, work.head)[work.first_row + at] =
            at < work.rows ? lse_of(last.max[r] * scale, sum) : WARPTUNE_INFINITY;
    }
  }
};

}  // namespace warptune
