#pragma once
// Operations on a warp's scores between Q.K^T and P.V, and its output: kMt x kNt accumulator fragments m16n8
// in registers (layout: common/mma.cuh). `row` and `key` are the coordinates of the lane's first score. A
// quad of four lanes shares a row.
#include "kernels/attention_prefill/problem.cuh"

namespace warptune {

/// Calls f(mt, r, nt) for each pair of neighboring elements that a lane has in kMt x kNt fragments m16n8, of
/// the first `rows` rows (counted from the lane's first) and the first `columns` fragments.
template <int kMt, int kNt, class F>
__device__ __forceinline__ void for_pairs(int rows, int columns, F f) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
        if (mt * 16 + r * 8 < rows && nt < columns) f(mt, r, nt);
}

/// Maximum or sum of a row over the quad that shares it.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_xor_sync(0xffffffffu, x, 2);
  return x;
}

/// s = s * scale + bias, in base-2 units (times log2(e)).
template <class T, class Shape, int kMt, int kNt>
__device__ __forceinline__ void add_bias(float (&s)[kMt][kNt][4], const HeadBias<T, Shape>& bias,
                                         float scale_log2, int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[mt][nt][i] =
            fmaf(s[mt][nt][i], scale_log2, bias.at(row + mt * 16 + i / 2 * 8, key + nt * 8 + i % 2));
}

/// -infinity for keys that their query does not see. Row i belongs to query i / kPackedHeads (pack_gqa).
template <class Shape, int kPackedHeads, int kMt, int kNt>
__device__ __forceinline__ void apply_mask(float (&s)[kMt][kNt][4], const AttentionPrefillArgs& args,
                                           const Sequence& sequence, int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = (row + mt * 16 + r * 8) / kPackedHeads, end = key_end<Shape>(args, sequence, query);
      const int begin = key_begin<Shape>(args, sequence, query);
#pragma unroll
      for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (key + nt * 8 + i >= end || (Shape::kWindow && key + nt * 8 + i < begin))
            s[mt][nt][2 * r + i] = -WARPTUNE_INFINITY;
    }
}

/// The largest score of the quad's row mt * 16 + r * 8.
template <int kMt, int kNt>
__device__ __forceinline__ float fragment_row_max(const float (&s)[kMt][kNt][4], int mt, int r) {
  float x = -WARPTUNE_INFINITY;
#pragma unroll
  for (int nt = 0; nt < kNt; ++nt) x = fmaxf(x, fmaxf(s[mt][nt][2 * r], s[mt][nt][2 * r + 1]));
  return quad_max(x);
}

/// Online softmax with lazy rescaling (FlashAttention-4): the running maximum rises to that of a tile only
/// where it is exceeded by more than 8 in base-2 units, a factor of 2^8. Returns the offset to subtract from
/// scores. `rescale` is the factor of everything accumulated so far: exactly 1 where the maximum stays.
__device__ __forceinline__ float update_row_max(float& row_max, float tile_max, float& rescale) {
  const float last = row_max;
  const bool moves = tile_max > last + 8.0f;
  if (moves) row_max = tile_max;
  const float offset = row_max == -WARPTUNE_INFINITY ? 0.0f : row_max;  // no visible key so far
  rescale = moves ? exp2_fast(last - offset) : 1.0f;
  return offset;
}

/// o *= rescale, by row. kSkipOnes: a warp vote skips the products where all factors are 1, as they mostly
/// are; the branch pays off from many products on.
template <bool kSkipOnes, int kMt, int kNt>
__device__ __forceinline__ void rescale_output(float (&o)[kMt][kNt][4], const float (&rescale)[kMt][2]) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt) {
    if (kSkipOnes && !__any_sync(0xffffffffu, rescale[mt][0] != 1.0f || rescale[mt][1] != 1.0f)) continue;
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[mt][nt][i] *= rescale[mt][i / 2];
  }
}

template <class Shape, int kMt, int kNt>
__device__ __forceinline__ void apply_dropout(float (&weights)[kMt][kNt][4], const Dropout<Shape>& dropout,
                                              int row, int key) {
#pragma unroll
  for (int mt = 0; mt < kMt; ++mt)
#pragma unroll
    for (int nt = 0; nt < kNt; ++nt) dropout.apply(weights[mt][nt], row + mt * 16, key + nt * 8);
}

}  // namespace warptune
