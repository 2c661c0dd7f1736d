#pragma once
// Floats that blocks hand to each other through memory, each of which tells by itself whether it has come: no
// fence, no counter, one way to the L2 for who posts and one for who takes. (NCCL's LL protocol has a flag
// beside every word; here no word is 0.) A place is 0 before floats are posted to it and after they are
// taken.
#include "kernels/common/numeric.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// N floats, 2 or 4, as they lie posted.
template <int N>
struct PostedWords {
  unsigned word[N];

  /// The NaN of all ones comes as another NaN.
  static __device__ __forceinline__ PostedWords of(const Vec<float, N>& x) {
    PostedWords posted;
#pragma unroll
    for (int i = 0; i < N; ++i) posted.word[i] = max(~__float_as_uint(x[i]), 1u);
    return posted;
  }
  __device__ __forceinline__ Vec<float, N> floats() const {
    Vec<float, N> x;
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __uint_as_float(~word[i]);
    return x;
  }
  /// Whether all have come.
  __device__ __forceinline__ bool whole() const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < N; ++i) all = all && word[i] != 0;
    return all;
  }

  /// What lies there now.
  static __device__ __forceinline__ PostedWords look(const void* place) {
    PostedWords x;
    if constexpr (N == 4)
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                   : "l"(place)
                   : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(x.word[0]), "=r"(x.word[1])
                   : "l"(place)
                   : "memory");
    return x;
  }
  __device__ __forceinline__ void put(void* place) const {
    if constexpr (N == 4)
      asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(place), "r"(word[0]),
                   "r"(word[1]), "r"(word[2]), "r"(word[3])
                   : "memory");
    else
      asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(place), "r"(word[0]), "r"(word[1])
                   : "memory");
  }
};

}  // namespace warptune
