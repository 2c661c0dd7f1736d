#pragma once
// Unpacking of 16-bit vectors by whole words: one instruction per element, so that a stream of weights costs
// two instructions per element (unpack, multiply-add).
#include "kernels/common/vec.cuh"

namespace warptune {

template <int N, class T>
__device__ __forceinline__ Vec<float, N> unpack(const Vec<T, N>& x) {
  if constexpr (is_same<T, bf16> && N % 2 == 0) {
    union {
      Vec<T, N> x;
      unsigned words[N / 2];
    } u;
    u.x = x;
    Vec<float, N> y;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      y[2 * i] = __uint_as_float(u.words[i] << 16);
      y[2 * i + 1] = __uint_as_float(u.words[i] & 0xffff0000u);
    }
    return y;
  } else {
    return to_float(x);
  }
}

/// The widest access, up to 16 bytes, with which rows of `length` elements stay aligned.
template <class T>
constexpr __host__ __device__ int row_vec(int length) {
  int vec = kVec16<T>;
  while (length % vec != 0) vec /= 2;
  return vec;
}

}  // namespace warptune
