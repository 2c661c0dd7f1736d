#pragma once
// 16-bit floats as plain bits, so that run-time compilation needs no toolkit headers (arithmetic is fp32).

namespace warptune {

struct fp16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ __forceinline__ float to_float(fp16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

/// The larger one, or NaN if one is NaN.
__device__ __forceinline__ float max_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

/// Rounds to nearest even.
template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ fp16 from_float<fp16>(float x) {
  fp16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

/// Two values as one 32-bit register, `low` in the low half (the order of memory).
template <class T>
__device__ __forceinline__ unsigned pack2(float low, float high);
template <>
__device__ __forceinline__ unsigned pack2<fp16>(float low, float high) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
template <>
__device__ __forceinline__ unsigned pack2<bf16>(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

/// As std::conditional.
template <bool kFirst, class First, class Second>
struct Conditional {
  using type = First;
};
template <class First, class Second>
struct Conditional<false, First, Second> {
  using type = Second;
};

constexpr __host__ __device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }
/// The smallest power of two that is at least n.
constexpr __host__ __device__ int next_power_of_two(int n) {
  return n <= 1 ? 1 : 2 * next_power_of_two((n + 1) / 2);
}
constexpr __host__ __device__ int min_of(int a, int b) { return a < b ? a : b; }
constexpr __host__ __device__ int max_of(int a, int b) { return a > b ? a : b; }

#define WARPTUNE_INFINITY __int_as_float(0x7f800000)

}  // namespace warptune
