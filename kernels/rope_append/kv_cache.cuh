#pragma once
// Layout of the KV cache: the address of a row of K or V, its element type, and its quantization scale.
#include "kernels/common/quantize.cuh"
#include "kernels/rope_append/args.h"

namespace warptune {

/// The element type of a cache, by the value of the dim kv_dtype: T, int8, fp8.
template <class T, int kKvDtype>
struct CacheElement {
  using Type = T;
};
template <class T>
struct CacheElement<T, 1> {
  using Type = signed char;
};
template <class T>
struct CacheElement<T, 2> {
  using Type = fp8;
};

/// kBlockedK: K is [D/x, S, x] with x of 16 bytes (args.h), else [S, D]. kPageSize: rows per page, 0:
/// contiguous.
template <class T, int kKvHeads, int kHeadDim, bool kBlockedK, int kKvDtype, int kPageSize>
struct KvCache {
  using Element = typename CacheElement<T, kKvDtype>::Type;
  static constexpr bool kQuantized = kKvDtype != 0;

  /// The row of a key of a KV head, counted over the whole cache.
  static __device__ __forceinline__ long long row(const RopeAppendArgs& args, int sequence, int head,
                                                  int position) {
    if constexpr (kPageSize > 0) {
      const long long page =
          __ldg(args.block_table + static_cast<long long>(sequence) * (args.capacity / kPageSize) +
                position / kPageSize);
      return (page * kKvHeads + head) * kPageSize + position % kPageSize;
    } else {
      return (static_cast<long long>(sequence) * kKvHeads + head) * args.capacity + position;
    }
  }
  /// Element `d` of a row of K. A vector of elements stays within one x.
  static __device__ __forceinline__ Element* k(const RopeAppendArgs& args, long long row, int d) {
    Element* cache = static_cast<Element*>(args.k_cache);
    if constexpr (!kBlockedK) {
      return cache + row * kHeadDim + d;
    } else {
      constexpr int kX = 16 / static_cast<int>(sizeof(Element));
      const long long rows = kPageSize > 0 ? kPageSize : args.capacity, within = row % rows;
      return cache + (row - within) * kHeadDim + (d / kX * rows + within) * kX + d % kX;
    }
  }
  static __device__ __forceinline__ Element* v(const RopeAppendArgs& args, long long row, int d) {
    return static_cast<Element*>(args.v_cache) + row * kHeadDim + d;
  }

  /// The scale of a row whose largest magnitude is `amax`, and the factor that quantizes its elements.
  static __device__ __forceinline__ float scale(float amax) {
    return amax / (is_same<Element, signed char> ? 127.0f : 448.0f);
  }
  static __device__ __forceinline__ float inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }
};

}  // namespace warptune
