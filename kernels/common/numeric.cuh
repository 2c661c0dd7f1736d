#pragma once
// Narrow floats as plain bits, so that run-time compilation needs no toolkit headers. Arithmetic is fp32.

namespace warptune {

struct fp16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
/// e4m3: 4 bits of exponent, 3 of mantissa, no infinities.
struct fp8 {
  unsigned char bits;
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

__device__ __forceinline__ float to_float(signed char x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(fp8 x) {
  const unsigned magnitude = x.bits & 0x7fu, sign = static_cast<unsigned>(x.bits >> 7) << 31;
  const float value = __uint_as_float(magnitude << 20) * 0x1p120f;  // the other bias; right below 2^-6, too
  return __uint_as_float((magnitude == 0x7f ? 0x7fc00000u : __float_as_uint(value)) | sign);
}

/// Rounds to nearest even; fp8 and int8 saturate, at 448 and 127 of either sign.
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

template <>
__device__ __forceinline__ signed char from_float<signed char>(float x) {
  return static_cast<signed char>(max(-127, min(127, __float2int_rn(x))));
}
template <>
__device__ __forceinline__ fp8 from_float<fp8>(float x) {
#if __CUDA_ARCH__ >= 890
  unsigned short y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return {static_cast<unsigned char>(y & 0xffu)};
#else
  const unsigned bits = __float_as_uint(x), magnitude = bits & 0x7fffffffu;
  unsigned y =
      min((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20, (120u << 3) + 0x7eu) - (120u << 3);
  if (magnitude < 0x3c800000u) y = __float_as_uint(__uint_as_float(magnitude) + 0x1p14f) & 0xfu;
  if (magnitude > 0x7f800000u) y = 0x7fu;
  return {static_cast<unsigned char>(bits >> 31 << 7 | y)};
#endif
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

constexpr __host__ __device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr __host__ __device__ int min_of(int a, int b) { return a < b ? a : b; }
constexpr __host__ __device__ int max_of(int a, int b) { return a > b ? a : b; }

#define WARPTUNE_INFINITY __int_as_float(0x7f800000)

}  // namespace warptune
