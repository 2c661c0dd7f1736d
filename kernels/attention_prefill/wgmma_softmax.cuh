#pragma once
// Online softmax on wgmma accumulators: the scores of a tile become weights P in place, two rows per thread.
// Lazy rescaling (FlashAttention-4): a row maximum moves only when it would grow by more than 8 in base-2
// units (a factor of 2^8), so the output is seldom rescaled. The registers have the layout of m16n8
// fragments, so that bias and dropout are those of score_fragment.cuh; loads of an additive bias overlap the
// wgmma of the scores.
#include "kernels/attention_prefill/score_fragment.cuh"
#include "kernels/attention_prefill/tile_scheduler.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/common/wgmma.cuh"

namespace warptune {

/// Statistics of a thread's two rows: the maximum of the scores before `scale`, and the sum of this thread's
/// weights relative to it.
struct RowState {
  float max[2], sum[2];
};

/// A thread has rows `row` and `row` + 8 of each work tile, and of each K/V tile keys 2 * (lane % 4) + {0,
/// 1}, in steps of 8.
template <class T, class Shape, int kTileN>
struct WgmmaSoftmax {
  static constexpr float kSlack = 8;  // log2 of how much too small a row maximum may be

  const AttentionPrefillArgs& args;
  const int lane, row;
  const float scale, slack;
  float s[kTileN / 2];  // scores, then weights
  RowState rows;
  float offset[2];   // subtracted from the scores of a tile, in base-2 units
  float rescale[2];  // factors that the output is yet to be multiplied with
  int end[2];        // key_end() of each row, relative to this thread's first key of the tile
  HeadBias<T, Shape> bias;
  Dropout<Shape> dropout;
  int query, key;                                          // of the first score, for bias and dropout
  unsigned bias_pairs[Shape::kAdditive ? kTileN / 4 : 1];  // of the tile, loaded ahead

  __device__ __forceinline__ WgmmaSoftmax(const AttentionPrefillArgs& args, int lane, int row)
      : args(args),
        lane(lane),
        row(row),
        scale(Shape::kBias ? 1.0f : args.scale * kLog2e),
        slack(kSlack / scale) {}

  /// Starts a work tile at its last K/V tile, before the wgmma of its scores.
  __device__ __forceinline__ void begin(const WorkTile& work) {
    const int first_key = work.last_tile() * kTileN + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows.max[r] = -WARPTUNE_INFINITY, rows.sum[r] = 0;
      end[r] = key_end<Shape>(args, work.sequence, work.first_row + row + 8 * r) - first_key;
    }
    query = work.first_row + row, key = first_key;
    bias = HeadBias<T, Shape>(args, work.sequence, work.batch, work.head);
    dropout = Dropout<Shape>(args, work.batch, work.head);
    if constexpr (Shape::kAdditive) bias.template load<false>(bias_pairs, query, key);
  }
  /// Moves to the K/V tile below, before the wgmma of its scores.
  template <bool kMask>
  __device__ __forceinline__ void next_tile() {
    if constexpr (kMask) end[0] += kTileN, end[1] += kTileN;
    key -= kTileN;
    if constexpr (Shape::kAdditive) bias.template load<true>(bias_pairs, query, key);
  }

  /// The scores as m16n8 fragments: 16 queries by 8 keys of a warp.
  __device__ __forceinline__ auto fragments() -> float (&)[1][kTileN / 8][4] {
    return reinterpret_cast<float(&)[1][kTileN / 8][4]>(s);
  }
  __device__ __forceinline__ void add_bias_pairs() {
#pragma unroll
    for (int i = 0; i < kTileN / 4; ++i) {
      const T low{static_cast<unsigned short>(bias_pairs[i])},
          high{static_cast<unsigned short>(bias_pairs[i] >> 16)};
      s[2 * i] = fmaf(s[2 * i], args.scale * kLog2e, to_float(low) * kLog2e);
      s[2 * i + 1] = fmaf(s[2 * i + 1], args.scale * kLog2e, to_float(high) * kLog2e);
    }
  }
  /// Bias, mask, and the update of the row maxima.
  template <bool kMask>
  __device__ __forceinline__ void update_row_maxima() {
    if constexpr (Shape::kAlibi) add_bias(fragments(), bias, args.scale * kLog2e, query, key);
    if constexpr (Shape::kAdditive) add_bias_pairs();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if constexpr (kMask) {
#pragma unroll
        for (int i = 0; i < kTileN / 4; ++i) {
          const int key = i / 2 * 8 + i % 2;
          if (key >= end[r] || (Shape::kWindow && key < end[r] - args.window))
            s[i / 2 * 4 + r * 2 + i % 2] = -WARPTUNE_INFINITY;
        }
      }
      float& row_max = rows.max[r];
      float partial[2] = {row_max, row_max};
#pragma unroll
      for (int i = 0; i < kTileN / 4; ++i)
        partial[i % 2] = fmaxf(partial[i % 2], s[i / 2 * 4 + r * 2 + i % 2]);
      float new_max = quad_max(fmaxf(partial[0], partial[1]));
      const bool moves = new_max > row_max + slack;
      if (!moves) new_max = row_max;
      const bool no_key = (kMask || Shape::kAdditive) && new_max == -WARPTUNE_INFINITY;  // visible so far
      offset[r] = no_key ? 0.0f : new_max * scale;
      rescale[r] = moves ? exp2_fast(fmaf(row_max, scale, -offset[r])) : 1.0f;
      row_max = new_max;
      rows.sum[r] *= rescale[r];
    }
  }
  /// Online softmax: scores become weights; updates row maxima and sums.
  template <bool kMask>
  __device__ __forceinline__ void online_softmax() {
    warpgroup_fence_operand(s);
    update_row_maxima<kMask>();
    float sum[2][2] = {};
#pragma unroll
    for (int i = 0; i < kTileN / 2; ++i) {
      const int r = i / 2 % 2;
      s[i] = exp2_fast(fmaf(s[i], scale, -offset[r]));
      sum[r][i % 2] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) rows.sum[r] += sum[r][0] + sum[r][1];
    if constexpr (Shape::kDropout) apply_dropout(fragments(), dropout, query, key);
    warpgroup_fence_operand(s);
  }
  /// Converts the weights to 16 bits, in the layout of wgmma's A operand in registers.
  __device__ __forceinline__ void convert_p(unsigned (&p)[kTileN / 16][4]) const {
#pragma unroll
    for (int i = 0; i < kTileN / 4; ++i) p[i / 4][i % 4] = pack2<T>(s[2 * i], s[2 * i + 1]);
  }
  /// Multiplies the output with the factors of the last update.
  template <int kCount>
  __device__ __forceinline__ void rescale_o(float (&o)[kCount]) const {
    if (!__any_sync(0xffffffffu, rescale[0] != 1.0f || rescale[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) o[i] *= rescale[i / 2 % 2];
  }
  /// Ends a work tile: stores lse, and returns the factors that normalize the rows of its output.
  __device__ __forceinline__ void finalize(const WorkTile& work, const RowState& last,
                                           float (&out_scale)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = quad_sum(last.sum[r]);
      out_scale[r] = output_scale<Shape>(args, sum);
      const int at = row + 8 * r;
      if (Shape::kLse && lane % 4 == 0 && work.first_row + at < ceil_div(args.q_len, 32) * 32)
        lse_row<Shape>(args, work.batch, work.head)[work.first_row + at] =
            at < work.rows ? log_sum_exp(last.max[r] * scale, sum) : WARPTUNE_INFINITY;
    }
  }
};

}  // namespace warptune
