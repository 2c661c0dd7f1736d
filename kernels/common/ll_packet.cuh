#pragma once
// Flag-in-data exchange of floats between blocks (the LL protocol of NCCL): a zero word means "not yet
// written", so that sender and receiver need no fence and no counter, and one trip to the L2 each. NCCL
// stores a flag beside every word; here the encoding of a float is never 0. A slot is 0 before a packet is
// stored and after it has been consumed.
#include "kernels/common/numeric.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// N floats, 2 or 4, in one access.
template <int N>
struct LlPacket {
  unsigned word[N];

  /// The words are the complements of the bits. The NaN of all ones becomes another NaN.
  static __device__ __forceinline__ LlPacket pack(const Vec<float, N>& x) {
    LlPacket packet;
#pragma unroll
    for (int i = 0; i < N; ++i) packet.word[i] = max(~__float_as_uint(x[i]), 1u);
    return packet;
  }
  __device__ __forceinline__ Vec<float, N> unpack() const {
    Vec<float, N> x;
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = __uint_as_float(~word[i]);
    return x;
  }
  /// Whether all words have been written.
  __device__ __forceinline__ bool is_complete() const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < N; ++i) all = all && word[i] != 0;
    return all;
  }

  /// Reads the slot once, complete or not.
  static __device__ __forceinline__ LlPacket load(const void* slot) {
    LlPacket packet;
    if constexpr (N == 4)
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(packet.word[0]), "=r"(packet.word[1]), "=r"(packet.word[2]), "=r"(packet.word[3])
                   : "l"(slot)
                   : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(packet.word[0]), "=r"(packet.word[1])
                   : "l"(slot)
                   : "memory");
    return packet;
  }
  __device__ __forceinline__ void store(void* slot) const {
    if constexpr (N == 4)
      asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(word[0]),
                   "r"(word[1]), "r"(word[2]), "r"(word[3])
                   : "memory");
    else
      asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(slot), "r"(word[0]), "r"(word[1])
                   : "memory");
  }
};

}  // namespace warptune
