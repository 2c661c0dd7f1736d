#pragma once
// Sort keys of (value, index) pairs, as radix sorts use them: the bits of a float as an unsigned integer of
// the same order, and the index below them. The largest key belongs to the largest value and, of equal
// values, to the lowest index. -0 counts as 0.
#include "kernels/common/numeric.cuh"

namespace warptune {

__device__ __forceinline__ unsigned order_preserving_bits(float x) {
  const unsigned bits = __float_as_uint(__fadd_rn(x, 0.0f));
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}
template <class Half>
__device__ __forceinline__ unsigned order_preserving_bits(Half x) {
  const unsigned bits = x.bits == 0x8000u ? 0u : x.bits;
  return (bits & 0x8000u) ? ~bits & 0xffffu : bits | 0x8000u;
}

/// The inverse, up to the sign of zero.
template <class T>
__device__ __forceinline__ float from_order_preserving_bits(unsigned bits) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float((bits & 0x80000000u) ? bits & 0x7fffffffu : ~bits);
  } else {
    T x;
    x.bits = static_cast<unsigned short>((bits & 0x8000u) ? bits & 0x7fffu : ~bits);
    return to_float(x);
  }
}

/// Bits of an index below `count`, at least 1.
constexpr __host__ __device__ int index_bits(int count) {
  int bits = 1;
  while ((1ll << bits) < count) ++bits;
  return bits;
}

template <bool kNarrow>
struct SortKeyWord {
  using type = unsigned;
};
template <>
struct SortKeyWord<false> {
  using type = unsigned long long;
};

/// Keys of elements of T with indices below kCount. No number has the key 0: it means "none".
template <class T, int kCount>
struct SortKey {
  static constexpr int kIndexBits = index_bits(kCount);
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T)) + kIndexBits;
  using Word = typename SortKeyWord<(kBits <= 32)>::type;
  static constexpr Word kIndexMask = (Word{1} << kIndexBits) - 1;

  static __device__ __forceinline__ Word make(T x, int index) {
    return (static_cast<Word>(order_preserving_bits(x)) << kIndexBits) |
           (kIndexMask - static_cast<Word>(index));
  }
  static __device__ __forceinline__ int index(Word key) {
    return static_cast<int>(kIndexMask - (key & kIndexMask));
  }
  static __device__ __forceinline__ float value(Word key) {
    return from_order_preserving_bits<T>(static_cast<unsigned>(key >> kIndexBits));
  }
};

template <class Word>
__device__ __forceinline__ Word max_key(Word a, Word b) {
  return a > b ? a : b;
}

/// The largest key of a block of kBlock threads, in all of them. Calls may follow each other without a
/// barrier between them.
template <int kBlock, class Word>
__device__ __forceinline__ Word block_max_key(Word key) {
  constexpr int kWarps = kBlock / 32;
  __shared__ Word partial[kWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    key = max_key(key, __shfl_xor_sync(0xffffffffu, key, offset));
  if constexpr (kWarps > 1) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = key;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    key = lane < kWarps ? partial[lane] : Word{0};
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      key = max_key(key, __shfl_xor_sync(0xffffffffu, key, offset));
  }
  return key;
}

}  // namespace warptune
