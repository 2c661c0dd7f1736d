#pragma once
// Cache hints of kernels that stream inputs to outputs, as a tunable of a variant.
#include "kernels/common/vec.cuh"

namespace warptune {

/// Default: outputs stay in the L2 for the next kernel. Streaming: stores with .cs, which are evicted first.
/// EvictFirst: loads with L2::evict_first, for inputs that no other kernel reads.
inline constexpr int kCacheDefault = 0, kCacheStreaming = 1, kCacheEvictFirst = 2;

/// Loads data that is read once and that the kernel before may have written (so not the read-only path),
/// without an L1 line. Comes after pdl_wait(). Accesses below 16 bytes are plain.
template <int N, int kCacheHint = kCacheDefault, class T>
__device__ __forceinline__ Vec<T, N> load_vec_hint(const T* p) {
  if constexpr (sizeof(T) * N == 16) {
    union {
      uint4 bits;
      Vec<T, N> x;
    } u;
    if constexpr (kCacheHint == kCacheEvictFirst) {
      unsigned long long policy;
      asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
      asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                   : "=r"(u.bits.x), "=r"(u.bits.y), "=r"(u.bits.z), "=r"(u.bits.w)
                   : "l"(p), "l"(policy));
      return u.x;
    }
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(u.bits.x), "=r"(u.bits.y), "=r"(u.bits.z), "=r"(u.bits.w)
                 : "l"(p));
    return u.x;
  } else {
    return load_vec<N>(p);
  }
}

/// Stores with the hint.
template <int kCacheHint, int N, class T>
__device__ __forceinline__ void store_vec_hint(T* p, const Vec<T, N>& x) {
  if constexpr (kCacheHint == kCacheStreaming)
    store_vec_streaming<N>(p, x);
  else
    store_vec<N>(p, x);
}

}  // namespace warptune
