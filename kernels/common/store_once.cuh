#pragma once
// Stores of data that is not read again soon: marked as first to leave the caches.
#include "kernels/common/vec.cuh"

namespace warptune {

/// 16 or 8 bytes as a streaming store; other sizes store plainly.
template <int N, class T>
__device__ __forceinline__ void store_vec_once(T* p, const Vec<T, N>& x) {
  if constexpr (sizeof(T) * N == 16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(&x);
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(bits.x), "r"(bits.y),
                 "r"(bits.z), "r"(bits.w)
                 : "memory");
  } else if constexpr (sizeof(T) * N == 8) {
    const uint2 bits = *reinterpret_cast<const uint2*>(&x);
    asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(bits.x), "r"(bits.y) : "memory");
  } else {
    store_vec<N>(p, x);
  }
}

}  // namespace warptune
