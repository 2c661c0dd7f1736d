#pragma once
// Accesses to data that passes through once: no line kept in L1, and stores that leave L2 first.
#include "kernels/common/vec.cuh"

namespace warptune {

/// How data passes through the caches: results stay in L2 for the next kernel; results are the first to leave
/// it; or the inputs, which nobody reads again, are the first to leave it.
inline constexpr int kStorePlain = 0, kStoreStreaming = 1, kInputsFirstOut = 2;

/// A load of data that the kernel before may have written (not by the read-only path) and that is read once.
/// Comes after pdl_wait().
template <int N, int kStore = kStorePlain, class T>
__device__ __forceinline__ Vec<T, N> load_vec_stream(const T* p) {
  if constexpr (sizeof(T) * N == 16) {
    union {
      uint4 bits;
      Vec<T, N> x;
    } u;
    if constexpr (kStore == kInputsFirstOut) {
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

/// Sizes below 4 bytes store plainly.
template <int kStore, int N, class T>
__device__ __forceinline__ void store_vec_by(T* p, const Vec<T, N>& x) {
  constexpr int kBytes = static_cast<int>(sizeof(T)) * N;
  if constexpr (kStore != kStoreStreaming || kBytes < 4) {
    store_vec<N>(p, x);
  } else {
    const unsigned* w = reinterpret_cast<const unsigned*>(&x);
    if constexpr (kBytes == 16)
      asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]),
                   "r"(w[3])
                   : "memory");
    else if constexpr (kBytes == 8)
      asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(w[0]), "r"(w[1]) : "memory");
    else
      asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(p), "r"(w[0]) : "memory");
  }
}

}  // namespace warptune
