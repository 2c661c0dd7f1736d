#pragma once
// Floats as unsigned integers of the same order, joined with an index into one key: the largest key is the
// largest value and, of equal values, the lowest index. -0 counts as 0.
#include "kernels/common/numeric.cuh"

namespace warptune {

__device__ __forceinline__ unsigned ordered_bits(float x) {
  const unsigned bits = __float_as_uint(__fadd_rn(x, 0.0f));
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}
template <class Half>
__device__ __forceinline__ unsigned ordered_bits(Half x) {
  const unsigned bits = x.bits == 0x8000u ? 0u : x.bits;
  return (bits & 0x8000u) ? ~bits & 0xffffu : bits | 0x8000u;
}

/// The inverse, up to the sign of zero.
template <class T>
__device__ __forceinline__ float from_ordered_bits(unsigned bits) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float((bits & 0x80000000u) ? bits & 0x7fffffffu : ~bits);
  } else {
    T x;
    x.bits = static_cast<unsigned short>((bits & 0x8000u) ? bits & 0x7fffu : ~bits);
    return to_float(x);
  }
}

constexpr __host__ __device__ int bits_for(int count) {  // of an index below count, at least 1
  int bits = 1;
  while ((1ll << bits) < count) ++bits;
  return bits;
}

template <bool kNarrow>
struct KeyWord {
  using type = unsigned;
};
template <>
struct KeyWord<false> {
  using type = unsigned long long;
};

/// Keys of elements of T with indices below kCount. No key of a number is 0, so that 0 means "none".
template <class T, int kCount>
struct Keys {
  static constexpr int kIndexBits = bits_for(kCount);
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T)) + kIndexBits;
  using Word = typename KeyWord<(kBits <= 32)>::type;
  static constexpr Word kIndexMask = (Word{1} << kIndexBits) - 1;

  static __device__ __forceinline__ Word make(T x, int index) {
    return (static_cast<Word>(ordered_bits(x)) << kIndexBits) | (kIndexMask - static_cast<Word>(index));
  }
  static __device__ __forceinline__ int index(Word key) {
    return static_cast<int>(kIndexMask - (key & kIndexMask));
  }
  static __device__ __forceinline__ float value(Word key) {
    return from_ordered_bits<T>(static_cast<unsigned>(key >> kIndexBits));
  }
};

template <class Word>
__device__ __forceinline__ Word max_key(Word a, Word b) {
  return a > b ? a : b;
}

/// The largest key of a block of kBlock threads, in all of them. May be called again at once.
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
