#pragma once
// What every decode attention kernel starts from: the problem as template parameters, the addresses of one KV
// head's cache, the score bias, the output with its epilogue, and the range of keys of a split.
#include "kernels/attention_decode/args.h"
#include "kernels/common/online_softmax.cuh"
#include "kernels/common/quantize.cuh"

namespace warptune {

/// The type number kIndex of a list.
template <int kIndex, class First, class... Rest>
struct TypeAt {
  using Type = typename TypeAt<kIndex - 1, Rest...>::Type;
};
template <class First, class... Rest>
struct TypeAt<0, First, Rest...> {
  using Type = First;
};

/// The dims that a kernel is compiled for, in the order of the op's dims. kDsx: K has the layout [D/x, S, x].
/// kFar: positions of appended rows may exceed kNearPositions.
template <class T_, int kQHeads_, int kKvHeads_, int kHeadDim_, bool kDsx_ = false, bool kAppend_ = false,
          int kKvDtype = 0, bool kRowScales_ = false, int kPage_ = 0, int kWindow_ = 0, int kBias_ = 0,
          bool kLse_ = false, int kEpilogue_ = 0, bool kInterleaved_ = false, bool kDynamicNtk_ = false,
          bool kFar_ = false, bool kNorm_ = false>
struct DecodeProblem {
  static constexpr Epilogue kEpilogue = static_cast<Epilogue>(kEpilogue_);
  using T = T_;
  using C = typename TypeAt<kKvDtype, T, signed char, fp8>::Type;  // element type of the caches
  using Out = typename TypeAt<kEpilogue == Epilogue::quantize, T, signed char>::Type;
  static constexpr int kQHeads = kQHeads_, kKvHeads = kKvHeads_, kGroup = kQHeads / kKvHeads,
                       kHeadDim = kHeadDim_;
  static constexpr bool kDsx = kDsx_, kAppend = kAppend_, kLse = kLse_;
  // RoPE of the append, and the norms before it. Enumerators take no place in the constant bank, whose size
  // is part of the machine code.
  enum { kInterleaved = kInterleaved_, kDynamicNtk = kDynamicNtk_, kFar = kFar_, kNorm = kNorm_ };
  using Args =
      typename TypeAt<kNorm                            ? 3
                      : kEpilogue == Epilogue::project ? 2
                                                       : kDynamicNtk,
                      AttentionDecodeArgs, DynamicNtkDecodeArgs, ProjectDecodeArgs, NormDecodeArgs>::Type;
  static constexpr bool kQuantized = kKvDtype != 0;
  static constexpr bool kRowScales = kRowScales_;  // quantized caches: a scale per row, not per head
  static constexpr int kPage = kPage_, kWindow = kWindow_;
  static constexpr ScoreBias kBias = static_cast<ScoreBias>(kBias_);

  /// The first key inside the sliding window.
  static __device__ __forceinline__ int first_key(int length) {
    return kWindow == 0 ? 0 : max_of(0, length - kWindow);
  }
};

/// Row `head` of sequence b: of q, or of the fused qkv row with append.
template <class P>
__device__ __forceinline__ const typename P::T* query_row(const AttentionDecodeArgs& args, int b, int head) {
  constexpr int kRows = P::kQHeads + (P::kAppend ? 2 * P::kKvHeads : 0);
  return static_cast<const typename P::T*>(args.q) + (static_cast<long long>(b) * kRows + head) * P::kHeadDim;
}

/// Addresses and scales of the keys and values of one KV head of one sequence.
template <class P>
struct KvCache {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>;

  C* k;  // row 0 of this head; paged: of this head in page 0
  C* v;
  float* k_scales;
  float* v_scales;
  const int* pages;
  long long capacity;

  __device__ __forceinline__ KvCache(const AttentionDecodeArgs& args, long long b, int kv_head)
      : capacity(args.capacity) {
    const long long first =
        P::kPage ? static_cast<long long>(kv_head) * P::kPage : (b * P::kKvHeads + kv_head) * args.capacity;
    k = static_cast<C*>(args.k_cache) + first * P::kHeadDim;
    v = static_cast<C*>(args.v_cache) + first * P::kHeadDim;
    if constexpr (P::kQuantized) {
      k_scales = args.k_scale + (P::kRowScales ? first : kv_head);
      v_scales = args.v_scale + (P::kRowScales ? first : kv_head);
    }
    if constexpr (P::kPage > 0) pages = args.block_table + b * (args.capacity / P::kPage);
  }

  /// The row of a key, which must be in the sequence.
  __device__ __forceinline__ long long row(int key) const {
    if constexpr (P::kPage > 0)
      return static_cast<long long>(__ldg(pages + key / P::kPage)) * (P::kKvHeads * P::kPage) +
             key % P::kPage;
    else
      return key;
  }
  __device__ __forceinline__ C* k_at(long long row, int i) const {
    if constexpr (!P::kDsx) return k + row * P::kHeadDim + i;
    const long long rows = P::kPage ? P::kPage : capacity,
                    within = P::kPage ? row % max_of(P::kPage, 1) : row;
    return k + (row - within) * P::kHeadDim + (i / kX * rows + within) * kX + i % kX;
  }
  __device__ __forceinline__ C* v_at(long long row, int i) const { return v + row * P::kHeadDim + i; }

  /// The scale of a row; 1 where rows have none.
  __device__ __forceinline__ float k_scale(long long row) const {
    return P::kRowScales ? k_scales[row] : 1.0f;
  }
  __device__ __forceinline__ float v_scale(long long row) const {
    return P::kRowScales ? v_scales[row] : 1.0f;
  }
  /// The scale of the head, to be folded into q and the output; 1 where the head has none.
  __device__ __forceinline__ float head_k_scale() const {
    return P::kQuantized && !P::kRowScales ? *k_scales : 1.0f;
  }
  __device__ __forceinline__ float head_v_scale() const {
    return P::kQuantized && !P::kRowScales ? *v_scales : 1.0f;
  }
};

/// Adds the score bias of kHeads query heads: nothing, a slope times the distance (ALiBi), or a tensor.
template <class P, int kHeads>
struct ScoreBiasTerm {
  using T = typename P::T;
  float slopes[kHeads];  // times log2e
  int last;              // key
  const T* rows;
  long long capacity;

  __device__ __forceinline__ ScoreBiasTerm(const AttentionDecodeArgs& args, long long b, int first_head,
                                           int length)
      : last(length - 1), capacity(args.capacity) {
    if constexpr (P::kBias == ScoreBias::alibi) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) slopes[h] = args.alibi_slopes[first_head + h] * kLog2e;
    }
    if constexpr (P::kBias == ScoreBias::additive)
      rows = static_cast<const T*>(args.score_bias) + (b * P::kQHeads + first_head) * capacity;
  }
  /// The score plus its bias, both in base-2 units.
  __device__ __forceinline__ float operator()(float score, int h, int key) const {
    if constexpr (P::kBias == ScoreBias::alibi) return score + slopes[h] * static_cast<float>(key - last);
    if constexpr (P::kBias == ScoreBias::additive) return score + to_float(rows[h * capacity + key]) * kLog2e;
    return score;
  }
};

/// Writes the rows of query heads through the epilogue, and their log-sum-exp.
template <class P>
struct Output {
  using T = typename P::T;
  typename P::Out* out;  // of the first head
  float* lse;
  const T* shift;
  const T* smooth;
  float out_scale;
  float v_scale;  // of the KV head

  __device__ __forceinline__ Output(const AttentionDecodeArgs& args, long long b, int first_head)
      : out(static_cast<typename P::Out*>(args.out) + (b * P::kQHeads + first_head) * P::kHeadDim),
        lse(args.lse + b * P::kQHeads + first_head),
        shift(static_cast<const T*>(args.shift) + first_head * P::kHeadDim),
        smooth(static_cast<const T*>(args.smooth) + first_head * P::kHeadDim),
        out_scale(args.out_scale),
        v_scale(KvCache<P>(args, b, first_head / P::kGroup).head_v_scale()) {}

  /// Elements [i, i + N) of head h: the normalized sum of weighted V codes.
  template <int N>
  __device__ __forceinline__ void put(int h, int i, Vec<float, N> x) const {
    const int at = h * P::kHeadDim + i;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if constexpr (P::kQuantized && !P::kRowScales) x[j] *= v_scale;
      if constexpr (P::kEpilogue == Epilogue::smooth || P::kEpilogue == Epilogue::quantize)
        x[j] = (x[j] + to_float(shift[at + j])) * to_float(smooth[at + j]);
      if constexpr (P::kEpilogue == Epilogue::quantize) x[j] *= out_scale;
    }
    store_vec<N>(out + at, from_float<typename P::Out>(x));
  }
  /// Element i of head h from an unnormalized sum; the thread of element 0 also writes the log-sum-exp.
  __device__ __forceinline__ void put(int h, int i, float value, SoftmaxState all) const {
    put<1>(h, i, {all.sum > 0.0f ? value / all.sum : 0.0f});
    if (i == 0) put_lse(h, all);
  }
  __device__ __forceinline__ void put_lse(int h, SoftmaxState all) const {
    if constexpr (P::kLse) lse[h] = all.sum > 0.0f ? (all.max + log2f(all.sum)) / kLog2e : -WARPTUNE_INFINITY;
  }
  /// kHeads heads of a sequence without keys.
  template <int kHeads, int kBlock>
  __device__ __forceinline__ void put_empty() const {
    for (int i = threadIdx.x; i < kHeads * P::kHeadDim; i += kBlock)
      put(i / P::kHeadDim, i % P::kHeadDim, 0.0f, SoftmaxState::none());
  }
};

/// Keys [first, end) of one split; the first `active` splits have keys.
struct SplitRange {
  int first, end, active;
};
/// Keys per split are fixed (kKeys), or the keys are divided by kSplits at run time, in steps of 16, so that
/// one launch geometry serves every length.
template <int kSplits, int kKeys = 0>
__device__ __forceinline__ SplitRange split_range(int begin, int length, int split) {
  const int count = length - begin;
  const int keys = kKeys ? kKeys : max_of(16, ceil_div(ceil_div(count, kSplits), 16) * 16);
  const long long first = begin + static_cast<long long>(split) * keys;
  const int from = first < length ? static_cast<int>(first) : length;
  return {from, length - from < keys ? length : from + keys, ceil_div(count, keys)};
}

/// The KV tiles of one warp: tiles of kTileKv keys, a contiguous range per split, assigned round-robin to the
/// warps of a block. With append, the new key is the last one and not in the cache.
template <class P, int kTileKv, int kWarps, int kSplits>
struct WarpTiles {
  int length, begin;  // keys of the sequence; the first inside the window
  int first, end;     // tiles first, first + kWarps, ...
  int early_end;      // tiles below it hold keys of earlier steps only: loads may precede pdl_wait()

  __device__ __forceinline__ WarpTiles(const AttentionDecodeArgs& args, int batch, int split, int warp)
      : length(args.lengths[batch]) {
    begin = P::first_key(length);
    const int tiles = ceil_div(length, kTileKv), skipped = begin / kTileKv;
    const long long count = tiles - skipped;
    first = skipped + static_cast<int>(count * split / kSplits) + warp;
    end = skipped + static_cast<int>(count * (split + 1) / kSplits);
    early_end = P::kAppend ? end : min_of(end, tiles - 1);
  }
  /// Keys [masked, valid) of a tile are inside the window and the sequence.
  __device__ __forceinline__ int masked(int tile) const { return max_of(0, begin - tile * kTileKv); }
  __device__ __forceinline__ int valid(int tile) const { return min_of(kTileKv, length - tile * kTileKv); }
  /// Keys [0, cached) of a tile are in the cache.
  __device__ __forceinline__ int cached(int tile) const {
    return min_of(kTileKv, length - P::kAppend - tile * kTileKv);
  }
};

}  // namespace warptune
