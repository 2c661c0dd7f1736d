#pragma once
// Attention of one warp on tensor cores (mma m16n8k16) for up to 16 query heads of a KV head (packed GQA),
// which share every byte of K and V. mma_direct.cu and mma_pipelined.cu use it; they differ in where the
// fragments of a KV tile come from (registers or shared memory).
//
// S = Q.K^T has query heads as rows (m16) and keys as columns (n8). O^T = V^T.P^T has elements of head_dim as
// rows and 8 heads as columns, so that the scores of a lane are already its B fragment of P^T. The order of
// the inner index of a matrix product is free: a lane uses 16 contiguous bytes of a K row as the fragments of
// several k steps, and q is loaded in the same order. The order of the rows of O^T is free too: a lane loads
// 16 contiguous bytes of the V rows of two keys, 8 where rows are no whole 128, and interleaves them. 8-bit
// values are converted to fp16 (common/quantize.cuh). Where rows have scales, those of V are part of the
// weights P, in units of a power of two near the largest so far: a weight stays inside the range of fp16
// whatever the size of V. Fragment layouts: common/mma.cuh; a lane is (g, t) = (lane / 4, lane % 4).
#include "kernels/attention_decode/append_overlapped.cuh"
#include "kernels/attention_decode/combine.cuh"
#include "kernels/common/mma.cuh"

namespace warptune {

/// Elements of a lane's vectors of V: 16 bytes, or 8 where the eight lanes of a row have no whole vectors.
template <class P>
inline constexpr int kValueVec = kVec16<typename P::C> /
                                 (P::kHeadDim % (8 * kVec16<typename P::C>) == 0 ? 1 : 2);

/// Which vectors of a KV tile a lane loads.
template <class P, int kTileKv_>
struct FragmentLayout {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>, kVX = kValueVec<P>, kTileKv = kTileKv_,
                       kNTiles = kTileKv / 8;  // n8 tiles of keys
  static constexpr int kKVectors = P::kHeadDim / kX / 4,
                       kVVectors = P::kHeadDim / kVX / 8;  // per row and lane
  using ValueVector = typename TypeAt<kVX == kX, uint2, uint4>::Type;
  static_assert(P::kHeadDim % (4 * kX) == 0 && kTileKv % 16 == 0);

  /// K: key g of each n8 tile, vectors t, t + 4, ... V: keys 2t and 2t + 1, vectors g, g + 8, ...
  static __device__ __forceinline__ int k_key(int n) { return n * 8 + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int v_key(int n, int odd) { return n * 8 + threadIdx.x % 4 * 2 + odd; }
  static __device__ __forceinline__ int k_column(int i) { return (threadIdx.x % 4 + i * 4) * kX; }
  static __device__ __forceinline__ int v_column(int i) { return (threadIdx.x % 32 / 4 + i * 8) * kVX; }
};

/// A KV tile in shared memory with contiguous rows: loads of K have 2-way and loads of V 4-way bank
/// conflicts, which leaves a third of the shared memory bandwidth. Rows after the last valid key are not
/// read; the last row is read instead.
template <class P, int kTileKv>
struct SharedTile : FragmentLayout<P, kTileKv> {
  using Layout = FragmentLayout<P, kTileKv>;
  using C = typename P::C;
  const C* keys;
  const C* values;
  const float* k_scales;
  const float* v_scales;
  int last;

  __device__ __forceinline__ SharedTile(const C* keys, const C* values, const float* k_scales,
                                        const float* v_scales, int valid)
      : keys(keys), values(values), k_scales(k_scales), v_scales(v_scales), last(valid - 1) {}
  __device__ __forceinline__ uint4 k(int n, int i) const {
    return *reinterpret_cast<const uint4*>(keys + min_of(Layout::k_key(n), last) * P::kHeadDim +
                                           Layout::k_column(i));
  }
  __device__ __forceinline__ typename Layout::ValueVector v(int n, int odd, int i) const {
    return *reinterpret_cast<const typename Layout::ValueVector*>(
        values + min_of(Layout::v_key(n, odd), last) * P::kHeadDim + Layout::v_column(i));
  }
  __device__ __forceinline__ float k_scale(int n, int odd) const {
    return k_scales[min_of(Layout::v_key(n, odd), last)];
  }
  __device__ __forceinline__ float v_scale(int n, int odd) const {
    return v_scales[min_of(Layout::v_key(n, odd), last)];
  }
};

/// The low (high) 16-bit halves of two registers.
__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

/// The unit of the scales of V that the weights are multiplied by, a power of two; 1 without row scales.
template <bool kRowScales>
struct ValueUnit {
  static constexpr float v_unit = 1;
};
template <>
struct ValueUnit<true> {
  float v_unit = 0x1p-100f;
};

/// The scales of V of a lane's keys in a tile, in units of ValueUnit.
template <int kNTiles_>
struct ScaledValues {
  static constexpr int kNTiles = kNTiles_;
  float scales[kNTiles][2];
  __device__ __forceinline__ float v_scale(int n, int odd) const { return scales[n][odd]; }
};

/// The state of one warp: query fragments, online softmax, output accumulators.
template <class P>
struct MmaAttention : ValueUnit<P::kRowScales> {
  using ValueUnit<P::kRowScales>::v_unit;
  using T = typename P::T;
  using C = typename P::C;
  using F = typename TypeAt<P::kQuantized, T, fp16>::Type;  // operand type of the mma
  static constexpr int kX = kVec16<C>, kVX = kValueVec<P>, kHeadDim = P::kHeadDim, kGroup = P::kGroup;
  static constexpr int kHalves = ceil_div(kGroup, 8), kSteps = kHeadDim / 16,
                       kPerVector = kVX / 2;  // m16 tiles of O^T of a lane's vector of V
  static_assert(kGroup <= 16);

  unsigned q[kSteps][4] = {};
  float max[kHalves], sum[kHalves];    // of heads g and g + 8; sums are of this lane's columns
  float out[kHalves][kSteps][4] = {};  // with row scales, in units of v_unit
  float scale;                         // of q.k, to base-2 scores
  ScoreBiasTerm<P, 1> bias[2];

  __device__ __forceinline__ MmaAttention(const AttentionDecodeArgs& args, const KvCache<P>& cache, int batch,
                                          int first_head, int length)
      : scale(args.scale * kLog2e * cache.head_k_scale()),
        bias{{args, batch, first_head + min_of(row(0), kGroup - 1), length},
             {args, batch, first_head + min_of(row(1), kGroup - 1), length}} {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) max[half] = kNoScore, sum[half] = 0;
  }

  /// Loads q from rows of elements of type T or F, `stride` apart, in the order of a lane's vectors of a K
  /// row: a k step uses two registers of pairs.
  template <class S>
  __device__ __forceinline__ void load_q(const S* rows, int stride) {
    constexpr int kVec = 8;  // elements per load
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      if (row(half) >= kGroup) continue;
#pragma unroll
      for (int i = 0; i < kHeadDim / 4 / kVec; ++i) {
        const int element = i * kVec;
        const auto x = load_vec<kVec>(rows + row(half) * stride + (element / kX * 4 + threadIdx.x % 4) * kX +
                                      element % kX);
#pragma unroll
        for (int pair = 0; pair < kVec / 2; ++pair) {
          unsigned& to = q[(element / 2 + pair) / 2][pair % 2 * 2 + half];
          if constexpr (is_same<F, S>)
            to = reinterpret_cast<const unsigned*>(&x)[pair];
          else
            to = pack2<F>(to_float(x[2 * pair]), to_float(x[2 * pair + 1]));
        }
      }
    }
  }

  /// Attends to keys [masked, valid) of a KV tile whose first key is key first_key of the sequence.
  template <class Tile>
  __device__ __forceinline__ void attend(const Tile& tile, int first_key, int masked, int valid) {
    float p[Tile::kNTiles][4] = {};
    // S = Q.K^T. As a function of its own it changes the register allocation of some 8-bit configurations.
#pragma unroll
    for (int i = 0; i < Tile::kKVectors; ++i)
#pragma unroll
      for (int n = 0; n < Tile::kNTiles; ++n) {
        const uint4 x = tile.k(n, i);
        const unsigned words[4] = {x.x, x.y, x.z, x.w};
        if constexpr (P::kQuantized) {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const Fp16Pairs pairs = to_fp16_pairs<true>(words[w], C{});
            mma_m16n8k16<F>(p[n], q[4 * i + w], pairs.first, pairs.second);
          }
        } else {
          mma_m16n8k16<F>(p[n], q[2 * i], words[0], words[1]);
          mma_m16n8k16<F>(p[n], q[2 * i + 1], words[2], words[3]);
        }
      }
    apply_bias_and_mask(tile, first_key, masked, valid, p);
    if constexpr (P::kRowScales)
      online_softmax(scaled_values(tile, masked, valid), p);
    else
      online_softmax(tile, p);
    accumulate_pv(tile, p);
  }

  /// Stores the warp's partial rows and softmax states for BlockCombine.
  template <class Block>
  __device__ __forceinline__ void store(Block& block) const {
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float unit = score_unit();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float total = sum[half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      if (t == 0 && row(half) < kGroup)
        block.warps.states[warp][row(half)] = {fmaxf(max[half] * unit, kNoScore), total};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head = 8 * half + 2 * t + i;
        if (head >= kGroup) continue;
          // m16 tile m: elements 2 (m % kPerVector) and the next of the lane's vector m / kPerVector.
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
          *reinterpret_cast<float2*>(
              &block.warps.rows[warp][head][(m / kPerVector * 8 + g) * kVX + m % kPerVector * 2]) = {
              out[half][m][i] * v_unit, out[half][m][2 + i] * v_unit};
      }
    }
  }

 private:
  /// The query head, within the group, that this lane holds in S.
  static __device__ __forceinline__ int row(int half) { return threadIdx.x % 32 / 4 + 8 * half; }
  /// Factor from p to base-2 scores; with a score bias p is scaled already.
  __device__ __forceinline__ float score_unit() const { return P::kBias == ScoreBias::none ? scale : 1.0f; }

  template <class Tile>
  __device__ __forceinline__ void apply_bias_and_mask(const Tile& tile, int first_key, int masked, int valid,
                                                      float (&p)[Tile::kNTiles][4]) const {
#pragma unroll
    for (int n = 0; n < Tile::kNTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2 * kHalves; ++i) {
        const int key = Tile::v_key(n, i % 2);
        float& x = p[n][i];
        if constexpr (P::kRowScales) x *= tile.k_scale(n, i % 2);
        if constexpr (P::kBias != ScoreBias::none)
          x = bias[i / 2](x * scale, 0, first_key + min_of(key, valid - 1));
      }
    if (valid < Tile::kTileKv || masked > 0) {
#pragma unroll
      for (int n = 0; n < Tile::kNTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2 * kHalves; ++i) {
          const int key = Tile::v_key(n, i % 2);
          if (key >= valid || key < masked) p[n][i] = -WARPTUNE_INFINITY;
        }
    }
  }

  /// The scales of V of a tile. v_unit rises to the power of two below the largest of the warp; keys that are
  /// not attended to have 0.
  template <class Tile>
  __device__ __forceinline__ ScaledValues<Tile::kNTiles> scaled_values(const Tile& tile, int masked,
                                                                       int valid) {
    ScaledValues<Tile::kNTiles> values;
    float high = v_unit;
#pragma unroll
    for (int n = 0; n < Tile::kNTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = Tile::v_key(n, i);
        values.scales[n][i] = key >= masked && key < valid ? tile.v_scale(n, i) : 0.0f;
        high = fmaxf(high, fabsf(values.scales[n][i]));
      }
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
    const float raised = __uint_as_float(__float_as_uint(high) & 0x7f800000u);
    const float inverse = __uint_as_float(0x7f000000u - __float_as_uint(raised));
    if (raised > v_unit) {
      const float rescale = v_unit * inverse;
      v_unit = raised;
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[half][m][i] *= rescale;
    }
#pragma unroll
    for (int n = 0; n < Tile::kNTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) values.scales[n][i] *= inverse;
    return values;
  }

  /// Scores become probabilities; the accumulators are rescaled only where a maximum of the warp rises.
  template <class Tile>
  __device__ __forceinline__ void online_softmax(const Tile& tile, float (&p)[Tile::kNTiles][4]) {
    const float unit = score_unit();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float high = max[half];
#pragma unroll
      for (int n = 0; n < Tile::kNTiles; ++n) high = fmaxf(high, fmaxf(p[n][2 * half], p[n][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      if (__any_sync(0xffffffffu, high > max[half])) {
        const float rescale = exp2_fast((max[half] - high) * unit);
        sum[half] *= rescale;
        max[half] = high;
        const int t = threadIdx.x % 4;
        const float even = __shfl_sync(0xffffffffu, rescale, 8 * t),
                    odd = __shfl_sync(0xffffffffu, rescale, 8 * t + 4);
#pragma unroll
        for (int m = 0; m < kSteps; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) out[half][m][i] *= i % 2 ? odd : even;
      }
      const float offset = high * unit;
#pragma unroll
      for (int n = 0; n < Tile::kNTiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& x = p[n][2 * half + i];
          sum[half] += x = exp2_fast(fmaf(x, unit, -offset));
          if constexpr (P::kRowScales) x *= tile.v_scale(n, i);
        }
    }
  }

  /// O^T += V^T.P^T
  template <class Tile>
  __device__ __forceinline__ void accumulate_pv(const Tile& tile, const float (&p)[Tile::kNTiles][4]) {
#pragma unroll
    for (int pair = 0; pair < Tile::kNTiles / 2; ++pair) {
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
      for (int i = 0; i < Tile::kVVectors; ++i) {
        constexpr int kWords = sizeof(typename Tile::ValueVector) / 4;
        unsigned words[4][kWords];  // of keys 2t and 2t + 1 of both n8 tiles
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const auto x = tile.v(2 * pair + j / 2, j % 2, i);
          words[j][0] = x.x, words[j][1] = x.y;
          if constexpr (kWords == 4) words[j][2] = x.z, words[j][3] = x.w;
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          const unsigned a = words[0][w], b = words[1][w], c = words[2][w], d = words[3][w];
          if constexpr (P::kQuantized) {  // interleaves bytes of a and b: pairs of one element
            const Fp16Pairs ab = to_fp16_pairs<true>(__byte_perm(a, b, 0x5140), C{}),
                            ab2 = to_fp16_pairs<true>(__byte_perm(a, b, 0x7362), C{}),
                            cd = to_fp16_pairs<true>(__byte_perm(c, d, 0x5140), C{}),
                            cd2 = to_fp16_pairs<true>(__byte_perm(c, d, 0x7362), C{});
            multiply(i * kPerVector + 2 * w, ab.first, ab.second, cd.first, cd.second);
            multiply(i * kPerVector + 2 * w + 1, ab2.first, ab2.second, cd2.first, cd2.second);
          } else {
            multiply(i * kPerVector + w, low_halves(a, b), high_halves(a, b), low_halves(c, d),
                     high_halves(c, d));
          }
        }
      }
    }
  }
};

/// The new rows of a problem with append, in shared memory.
template <class P, int kBlock>
using MmaAppend = OverlappedAppend<P, P::kGroup, kBlock, typename MmaAttention<P>::F>;

/// Loads the query rows; with append, `append` computes them first. `has_new_key`: this block attends to the
/// new key. kHasAngles: append.compute_angles() was called. All threads of the block call, after pdl_wait().
template <bool kHasAngles, class P, int kBlock>
__device__ __forceinline__ void load_queries(MmaAttention<P>& attention, const typename P::Args& args,
                                             const KvCache<P>& cache, int batch, int first_head, int length,
                                             const typename MmaAppend<P, kBlock>::Constants& constants,
                                             bool has_new_key, MmaAppend<P, kBlock>& append) {
  if constexpr (P::kAppend) {
    append.template append<kHasAngles>(args, cache, batch, first_head, length - 1, constants, has_new_key,
                                       has_new_key);
    attention.load_q(append.q[0], append.kStride);
  } else {
    attention.load_q(query_row<P>(args, batch, first_head), P::kHeadDim);
  }
}

}  // namespace warptune
