#pragma once
// Where the keys and values of one KV head of one sequence lie, and what their codes are multiplied by.
#include "kernels/attention_decode/problem.cuh"

namespace warptune {

template <class P>
struct KvCache {
  using C = typename P::C;
  static constexpr int kX = kVec16<C>;

  C* k;  // rows of this head: all of the sequence's, or those of page 0
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

  /// The row of a key that counts.
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

  /// Of a row; 1 where the head has one scale or none.
  __device__ __forceinline__ float k_scale(long long row) const {
    return P::kRowScales ? k_scales[row] : 1.0f;
  }
  __device__ __forceinline__ float v_scale(long long row) const {
    return P::kRowScales ? v_scales[row] : 1.0f;
  }
  /// Of the head; 1 where rows have their own, or there are none: to be folded into q and the result.
  __device__ __forceinline__ float head_k_scale() const {
    return P::kQuantized && !P::kRowScales ? *k_scales : 1.0f;
  }
  __device__ __forceinline__ float head_v_scale() const {
    return P::kQuantized && !P::kRowScales ? *v_scales : 1.0f;
  }
};

/// A contiguous cache of dtype T; `head`: sequence * kv_heads + kv_head.
template <class T, int kHeadDim, bool kDsx>
struct HeadCache : KvCache<DecodeProblem<T, 1, 1, kHeadDim, kDsx>> {
  __device__ __forceinline__ HeadCache(const AttentionDecodeArgs& args, long long head)
      : KvCache<DecodeProblem<T, 1, 1, kHeadDim, kDsx>>(args, head, 0) {}
};

}  // namespace warptune
