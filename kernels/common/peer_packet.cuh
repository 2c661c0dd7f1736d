#pragma once
// Flag-in-data packets between GPUs: 16 bytes of data in which a zero word means "not yet written", as in
// ll_packet.cuh. A sender stores a packet into the memory of the receiver, which polls its own memory, so
// that a packet takes one trip over NVLink and needs no fence, no flag and no barrier. NCCL's LL protocol
// stores a flag beside every word and sends twice the bytes.
#include "kernels/common/vec.cuh"

namespace warptune {

struct alignas(16) PeerPacket {
  unsigned word[4];  // the complements of the data's bits

  /// A word of all ones, which is a NaN or two, becomes another NaN. All other data arrives as it is.
  template <class T>
  static __device__ __forceinline__ PeerPacket pack(const Vec<T, kVec16<T>>& x) {
    const unsigned* const bits = reinterpret_cast<const unsigned*>(&x);
    PeerPacket packet;
#pragma unroll
    for (int i = 0; i < 4; ++i) packet.word[i] = max(~bits[i], 1u);
    return packet;
  }
  template <class T>
  __device__ __forceinline__ Vec<T, kVec16<T>> unpack() const {
    Vec<T, kVec16<T>> x;
    unsigned* const bits = reinterpret_cast<unsigned*>(&x);
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = ~word[i];
    return x;
  }
  /// Whether all words have been written.
  __device__ __forceinline__ bool is_complete() const {
    return word[0] != 0 && word[1] != 0 && word[2] != 0 && word[3] != 0;
  }

  /// Reads the slot once, complete or not.
  static __device__ __forceinline__ PeerPacket load(const PeerPacket* slot) {
    PeerPacket packet;
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.word[0]), "=r"(packet.word[1]), "=r"(packet.word[2]), "=r"(packet.word[3])
                 : "l"(slot)
                 : "memory");
    return packet;
  }
  __device__ __forceinline__ void store(PeerPacket* slot) const {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(slot), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
  }
};

}  // namespace warptune
