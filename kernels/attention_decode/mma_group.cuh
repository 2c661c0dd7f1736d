#pragma once
// Flash decoding on tensor cores for the query heads of a KV head, up to 16, which share every byte of K and
// V. What mma_direct.cu and mma_ring.cu have in common: they differ in where the pieces of a chunk of keys
// come from.
//
// S = Q.K^T has the heads of a group as rows (m16), keys as columns (n8); O^T = V^T.P^T has elements of
// head_dim as rows and 8 heads as columns, so that the scores of a lane become its B fragment of P^T where
// they are. The order of the summed index is free in a product: a lane takes 16 neighbouring bytes of a K row
// as the fragments of several steps, and q is read in the same order. So are rows of O^T: a lane takes 16
// neighbouring bytes of the V rows of two keys and interleaves them. Codes of 8 bits become fp16
// (common/codes.cuh). Fragment layouts: common/mma.cuh; below, a lane is (g, t).
#include "kernels/attention_decode/chunk_share.cuh"
#include "kernels/attention_decode/ring_append.cuh"
#include "kernels/attention_decode/ring_merge.cuh"
#include "kernels/attention_decode/scores.cuh"
#include "kernels/common/mma.cuh"

namespace warptune {

/// How a lane's 16-byte pieces lie in the rows of a chunk of kKeys keys.
template <class P, int kKeys_>
struct ChunkPieces {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>, kKeys = kKeys_, kTiles = kKeys / 8;          // of columns
  static constexpr int kPerK = P::kHeadDim / kX / 4, kPerV = P::kHeadDim / kX / 8;  // pieces per row and lane
  static_assert(P::kHeadDim % (8 * kX) == 0 && kKeys % 16 == 0);

  /// Of K, key g of each tile: pieces t, t + 4, .. Of V, keys 2t and 2t + 1: pieces g, g + 8, ..
  static __device__ __forceinline__ int k_key(int tile) { return tile * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int v_key(int tile, int odd) {
    return tile * 8 + threadIdx.x % 4 * 2 + odd;
  }
  static __device__ __forceinline__ int k_column(int i) { return (threadIdx.x % 4 + i * 4) * kX; }
  static __device__ __forceinline__ int v_column(int i) { return (threadIdx.x % 32 / 4 + i * 8) * kX; }
};

/// A chunk in shared memory, rows end to end: lanes meet on a bank, two for K and four for V, which leaves a
/// third of what shared memory can give. Rows behind `last` are not read; the last is taken for them.
template <class P, int kKeys>
struct SharedChunk : ChunkPieces<P, kKeys> {
  using Pieces = ChunkPieces<P, kKeys>;
  using C = typename P::C;
  const C* keys;
  const C* values;
  const float* k_scales;
  const float* v_scales;
  int last;

  __device__ __forceinline__ SharedChunk(const C* keys, const C* values, const float* k_scales,
                                         const float* v_scales, int valid)
      : keys(keys), values(values), k_scales(k_scales), v_scales(v_scales), last(valid - 1) {}
  __device__ __forceinline__ uint4 k(int tile, int i) const {
    return *reinterpret_cast<const uint4*>(keys + min_of(Pieces::k_key(tile), last) * P::kHeadDim +
                                           Pieces::k_column(i));
  }
  __device__ __forceinline__ uint4 v(int tile, int odd, int i) const {
    return *reinterpret_cast<const uint4*>(values + min_of(Pieces::v_key(tile, odd), last) * P::kHeadDim +
                                           Pieces::v_column(i));
  }
  __device__ __forceinline__ float k_scale(int tile, int odd) const {
    return k_scales[min_of(Pieces::v_key(tile, odd), last)];
  }
  __device__ __forceinline__ float v_scale(int tile, int odd) const {
    return v_scales[min_of(Pieces::v_key(tile, odd), last)];
  }
};

/// Halves of two registers of 16-bit pairs, one of each: both low ones, both high ones.
__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

/// One warp's attention of a group of heads over the chunks that it is given.
template <class P>
struct MmaGroup {
  using T = typename P::T;
  using C = typename P::C;
  using F = typename TypeAt<P::kQuantized, T, fp16>::Type;  // of the products
  static constexpr int kX = kVec16<C>, kHeadDim = P::kHeadDim, kGroup = P::kGroup;
  static constexpr int kHalves = ceil_div(kGroup, 8), kSteps = kHeadDim / 16;
  static constexpr int kPerWord = P::kQuantized ? 4 : 2;  // elements of a register
  static_assert(kGroup <= 16);

  unsigned q[kSteps][4] = {};
  float top[kHalves], sum[kHalves];  // of heads g and g + 8; sums: this lane's columns
  float out[kHalves][kSteps][4] = {};
  float scale;  // of products, to base-2 scores
  AddedScores<P, 1> added[2];

  __device__ __forceinline__ MmaGroup(const AttentionDecodeArgs& args, const KvCache<P>& cache, int batch,
                                      int first_head, int length)
      : scale(args.scale * kLog2e * cache.head_k_scale()),
        added{{args, batch, first_head + min_of(row(0), kGroup - 1), length},
              {args, batch, first_head + min_of(row(1), kGroup - 1), length}} {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) top[half] = kNoScore, sum[half] = 0;
  }

  /// From rows of elements of T, or F, `stride` apart. A lane's elements are those of its pieces of a K row,
  /// in their order: a step takes two registers of pairs.
  template <class S>
  __device__ __forceinline__ void load_q(const S* rows, int stride) {
    constexpr int kAtOnce = 8;  // elements
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if (row(half) >= kGroup) continue;
#pragma unroll
      for (int i = 0; i < kHeadDim / 4 / kAtOnce; ++i) {
        const int element = i * kAtOnce;
        const auto x = load_vec<kAtOnce>(rows + row(half) * stride +
                                         (element / kX * 4 + threadIdx.x % 4) * kX + element % kX);
#pragma unroll
        for (int pair = 0; pair < kAtOnce / 2; ++pair) {
          unsigned& to = q[(element / 2 + pair) / 2][pair % 2 * 2 + half];
          if constexpr (is_same<F, S>)
            to = reinterpret_cast<const unsigned*>(&x)[pair];
          else
            to = pack2<F>(to_float(x[2 * pair]), to_float(x[2 * pair + 1]));
        }
      }
    }
  }

  /// Attends to keys [ignored, valid) of a chunk, whose first is key first_key of the sequence.
  template <class Chunk>
  __device__ __forceinline__ void attend(const Chunk& chunk, int first_key, int ignored, int valid) {
    constexpr int kTiles = Chunk::kTiles;
    float p[kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < Chunk::kPerK; ++i)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 x = chunk.k(tile, i);
        const unsigned words[4] = {x.x, x.y, x.z, x.w};
        if constexpr (P::kQuantized) {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const Fp16Pairs pairs = to_fp16_pairs<true>(words[w], C{});
            mma_m16n8k16<F>(p[tile], q[4 * i + w], pairs.first, pairs.second);
          }
        } else {
          mma_m16n8k16<F>(p[tile], q[2 * i], words[0], words[1]);
          mma_m16n8k16<F>(p[tile], q[2 * i + 1], words[2], words[3]);
        }
      }

    const float unit = P::kBias == kBiasNone ? scale : 1.0f;  // of p, to base-2 scores
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 2 * kHalves; ++i) {
        const int key = Chunk::v_key(tile, i % 2);
        float& x = p[tile][i];
        if constexpr (P::kRowScales) x *= chunk.k_scale(tile, i % 2);
        if constexpr (P::kBias != kBiasNone)
          x = added[i / 2](x * scale, 0, first_key + min_of(key, valid - 1));
      }
    if (valid < Chunk::kKeys || ignored > 0) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 2 * kHalves; ++i) {
          const int key = Chunk::v_key(tile, i % 2);
          if (key >= valid || key < ignored) p[tile][i] = -WARPTUNE_INFINITY;
        }
    }

#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float high = top[half];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
        high = fmaxf(high, fmaxf(p[tile][2 * half], p[tile][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      if (__any_sync(0xffffffffu, high > top[half])) {
        const float shrink = exp2_fast((top[half] - high) * unit);
        sum[half] *= shrink;
        top[half] = high;
        const int t = threadIdx.x % 4;
        const float even = __shfl_sync(0xffffffffu, shrink, 8 * t),
                    odd = __shfl_sync(0xffffffffu, shrink, 8 * t + 4);
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[half][m][i] *= i % 2 ? odd : even;
      }
      const float offset = high * unit;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = p[tile][2 * half + i];
          sum[half] += x = exp2_fast(fmaf(x, unit, -offset));
          if constexpr (P::kRowScales) x *= chunk.v_scale(tile, i);
        }
    }

#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      unsigned weights[kHalves][2];
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          weights[half][i] = pack2<F>(p[2 * pair + i][2 * half], p[2 * pair + i][2 * half + 1]);
      const auto multiply = [&](int m, unsigned a0, unsigned a1, unsigned a2, unsigned a3) {
        const unsigned rows[4] = {a0, a1, a2, a3};
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          mma_m16n8k16<F>(out[half][m], rows, weights[half][0], weights[half][1]);
      };
#pragma unroll
      for (int i = 0; i < Chunk::kPerV; ++i) {
        unsigned words[4][4];  // of keys 2t and 2t + 1 of both tiles
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint4 x = chunk.v(2 * pair + j / 2, j % 2, i);
          words[j][0] = x.x, words[j][1] = x.y, words[j][2] = x.z, words[j][3] = x.w;
        }
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const unsigned a = words[0][w], b = words[1][w], c = words[2][w], d = words[3][w];
          if constexpr (P::kQuantized) {  // bytes of a and b in turns: pairs of one element
            const Fp16Pairs ab = to_fp16_pairs<true>(__byte_perm(a, b, 0x5140), C{}),
                            ab2 = to_fp16_pairs<true>(__byte_perm(a, b, 0x7362), C{}),
                            cd = to_fp16_pairs<true>(__byte_perm(c, d, 0x5140), C{}),
                            cd2 = to_fp16_pairs<true>(__byte_perm(c, d, 0x7362), C{});
            multiply(i * 8 + 2 * w, ab.first, ab.second, cd.first, cd.second);
            multiply(i * 8 + 2 * w + 1, ab2.first, ab2.second, cd2.first, cd2.second);
          } else {
            multiply(i * 4 + w, low_halves(a, b), high_halves(a, b), low_halves(c, d), high_halves(c, d));
          }
        }
      }
    }
  }

  /// Leaves the warp's rows and states for the merge.
  template <class Merge>
  __device__ __forceinline__ void store(Merge& merge) const {
    constexpr int kPerPiece = kX / 2;  // row tiles
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float unit = P::kBias == kBiasNone ? scale : 1.0f;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float total = sum[half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      if (t == 0 && row(half) < kGroup)
        merge.warps.states[warp][row(half)] = {fmaxf(top[half] * unit, kNoScore), total};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head = 8 * half + 2 * t + i;
        if (head >= kGroup) continue;
          // Row tile m: elements 2 (m % kPerPiece) and the next of the lane's piece m / kPerPiece.
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
          *reinterpret_cast<float2*>(
              &merge.warps.rows[warp][head][(m / kPerPiece * 8 + g) * kX + m % kPerPiece * 2]) = {
              out[half][m][i], out[half][m][2 + i]};
      }
    }
  }

 private:
  /// The row of S, of the group's heads, that this lane holds.
  static __device__ __forceinline__ int row(int half) { return threadIdx.x % 32 / 4 + 8 * half; }
};

/// The new rows of a problem with append, in shared memory.
template <class P, int kBlock>
using FreshRows = RingAppend<P, P::kGroup, kBlock, typename MmaGroup<P>::F>;

/// Gives a group its query rows, in problems with append those that `fresh` takes; `owner`: of the new key.
/// kRotated: it has the angles. All threads of the block call, after pdl_wait().
template <bool kRotated, class P, int kBlock>
__device__ __forceinline__ void begin_group(MmaGroup<P>& group, const AttentionDecodeArgs& args,
                                            const KvCache<P>& cache, int batch, int first_head, int length,
                                            const typename FreshRows<P, kBlock>::Weights& weights, bool owner,
                                            FreshRows<P, kBlock>& fresh) {
  if constexpr (P::kAppend) {
    fresh.template take<kRotated>(args, cache, batch, first_head, length - 1, weights, owner, owner);
    group.load_q(fresh.q[0], fresh.kStride);
  } else {
    group.load_q(query_row<P>(args, batch, first_head), P::kHeadDim);
  }
}

}  // namespace warptune
