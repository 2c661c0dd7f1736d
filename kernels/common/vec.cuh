#pragma once
// Vectorized loads and stores of N elements as one access, with or without cache hints, and conversions of
// whole vectors to and from floats.
#include "kernels/common/numeric.cuh"
#include "kernels/common/vec_width.h"

namespace warptune {

template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
  T v[N];
  __device__ __forceinline__ T& operator[](int i) { return v[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return v[i]; }
};

/// The number of T in a 16-byte access.
template <class T>
inline constexpr int kVec16 = 16 / static_cast<int>(sizeof(T));

/// The widest access, up to 16 bytes, that keeps rows of `length` elements of T aligned.
template <class T>
constexpr __host__ __device__ int vec_width(int length) {
  return vec_width(kVec16<T>, length);
}

template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <int N, class T>
__device__ __forceinline__ void store_vec(T* p, const Vec<T, N>& x) {
  *reinterpret_cast<Vec<T, N>*>(p) = x;
}

/// Loads through the read-only path without an L1 line (ld.global.nc.L1::no_allocate): for data that is read
/// once and that no kernel before writes (weights). Accesses below 16 bytes are plain.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_vec_nc(const T* p) {
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

/// One store, also of registers that do not follow each other, of which the compiler makes four.
__device__ __forceinline__ void store_16_bytes(void* p, const unsigned (&x)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/// Stores with .cs (evicted first): for data that is not read again soon. Accesses below 4 bytes are plain.
template <int N, class T>
__device__ __forceinline__ void store_vec_streaming(T* p, const Vec<T, N>& x) {
  constexpr int kBytes = static_cast<int>(sizeof(T)) * N;
  if constexpr (kBytes < 4) {
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

template <int N, class T>
__device__ __forceinline__ Vec<float, N> to_float(const Vec<T, N>& x) {
  Vec<float, N> y;
  if constexpr (is_same<T, bf16> && N % 2 == 0) {  // one instruction per element: shift or mask
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
