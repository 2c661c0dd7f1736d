#pragma once
// N elements moved as one access (16 bytes where N * sizeof(T) == 16), computed on as floats.
#include "kernels/common/numeric.cuh"

namespace warptune {

template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
  T v[N];
  __device__ __forceinline__ T& operator[](int i) { return v[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return v[i]; }
};

/// How many T a 16-byte access holds.
template <class T>
inline constexpr int kVec16 = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <int N, class T>
__device__ __forceinline__ void store_vec(T* p, const Vec<T, N>& x) {
  *reinterpret_cast<Vec<T, N>*>(p) = x;
}

/// A load of data that is read once: read-only path, no line kept in L1. Other sizes load plainly.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_vec_once(const T* p) {
  if constexpr (sizeof(T) * N == 16) {
    union {
      uint4 bits;
      Vec<T, N> x;
    } u;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(u.bits.x), "=r"(u.bits.y), "=r"(u.bits.z), "=r"(u.bits.w)
                 : "l"(p));
    return u.x;
  } else {
    return load_vec<N>(p);
  }
}

template <int N, class T>
__device__ __forceinline__ Vec<float, N> to_float(const Vec<T, N>& x) {
  Vec<float, N> y;
  if constexpr (is_same<T, bf16> && N % 2 == 0) {  // two instructions per pair: shift and mask
    const unsigned* words = reinterpret_cast<const unsigned*>(&x);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      y[i] = __uint_as_float(words[i / 2] << 16);
      y[i + 1] = __uint_as_float(words[i / 2] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = to_float(x[i]);
  }
  return y;
}

template <class T, int N>
__device__ __forceinline__ Vec<T, N> from_float(const Vec<float, N>& x) {
  Vec<T, N> y;
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    unsigned* words = reinterpret_cast<unsigned*>(&y);
#pragma unroll
    for (int i = 0; i < N; i += 2) words[i / 2] = pack2<T>(x[i], x[i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = from_float<T>(x[i]);
  }
  return y;
}

}  // namespace warptune
