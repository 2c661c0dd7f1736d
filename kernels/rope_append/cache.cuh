#pragma once
// Where the rows of k and v go, and what they are stored as.
#include "kernels/common/quantize.cuh"
#include "kernels/rope_append/args.h"

namespace warptune {

/// What a cache of T holds, in the order of the labels of the dim kv_dtype.
template <class T, int kKvDtype>
struct CodeOf {
  using Type = T;
};
template <class T>
struct CodeOf<T, 1> {
  using Type = signed char;
};
template <class T>
struct CodeOf<T, 2> {
  using Type = fp8;
};

/// kSplitK: K lies in pieces of 16 bytes (args.h). kPage: rows per page, 0: contiguous.
template <class T, int kKvHeads, int kHeadDim, bool kSplitK, int kKvDtype, int kPage>
struct RowCache {
  using Code = typename CodeOf<T, kKvDtype>::Type;
  static constexpr bool kQuantized = kKvDtype != 0;

  /// The row of a KV head's key, counted over the whole cache.
  static __device__ __forceinline__ long long row(const RopeAppendArgs& args, int sequence, int head,
                                                  int position) {
    if constexpr (kPage > 0) {
      const long long page = __ldg(
          args.block_table + static_cast<long long>(sequence) * (args.capacity / kPage) + position / kPage);
      return (page * kKvHeads + head) * kPage + position % kPage;
    } else {
      return (static_cast<long long>(sequence) * kKvHeads + head) * args.capacity + position;
    }
  }
  /// Element `d` of a row of K; a thread that moves several stays in one piece.
  static __device__ __forceinline__ Code* k(const RopeAppendArgs& args, long long row, int d) {
    Code* cache = static_cast<Code*>(args.k_cache);
    if constexpr (!kSplitK) {
      return cache + row * kHeadDim + d;
    } else {
      constexpr int kX = 16 / static_cast<int>(sizeof(Code));
      const long long rows = kPage > 0 ? kPage : args.capacity, within = row % rows;
      return cache + (row - within) * kHeadDim + (d / kX * rows + within) * kX + d % kX;
    }
  }
  static __device__ __forceinline__ Code* v(const RopeAppendArgs& args, long long row, int d) {
    return static_cast<Code*>(args.v_cache) + row * kHeadDim + d;
  }

  /// The scale of a row whose largest element has this magnitude, and what turns its elements into codes.
  static __device__ __forceinline__ float scale(float largest) {
    return largest / (is_same<Code, signed char> ? 127.0f : 448.0f);
  }
  static __device__ __forceinline__ float inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }
};

}  // namespace warptune
