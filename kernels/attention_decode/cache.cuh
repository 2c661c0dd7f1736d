#pragma once
// Where the keys and values of one KV head of one sequence lie.
#include "attention_decode/args.h"
#include "common/vec.cuh"

namespace warptune {

template <class T, int kHeadDim, bool kDsx>
struct HeadCache {
  T* k;
  T* v;
  long long capacity;

  /// `head`: sequence * kv_heads + kv_head.
  __device__ __forceinline__ HeadCache(const AttentionDecodeArgs& args, long long head)
      : k(static_cast<T*>(args.k_cache) + head * args.capacity * kHeadDim),
        v(static_cast<T*>(args.v_cache) + head * args.capacity * kHeadDim),
        capacity(args.capacity) {}

  __device__ __forceinline__ T* k_at(int key, int i) const {
    if constexpr (kDsx)
      return k + (i / kVec16<T> * capacity + key) * kVec16<T> + i % kVec16<T>;
    else
      return k + static_cast<long long>(key) * kHeadDim + i;
  }
  __device__ __forceinline__ T* v_at(int key, int i) const {
    return v + static_cast<long long>(key) * kHeadDim + i;
  }
};

}  // namespace warptune
