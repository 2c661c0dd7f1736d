#pragma once
// 8-bit quantized values: conversions of int8 and fp8 (e4m3) to and from floats, and exactly to packed
// pairs of fp16, the inputs of tensor cores. The unsigned ones are scales of 4-bit floats.
#include "kernels/common/vec.cuh"

namespace warptune {

/// e4m3: 4 bits of exponent, 3 of mantissa, no infinities.
struct fp8 {
  unsigned char bits;
};
/// e4m3 whose sign is clear.
struct ue4m3 {
  unsigned char bits;
};
/// A power of two: 8 bits of exponent, of which 0 stands for zero.
struct ue8m0 {
  unsigned char bits;
};

__device__ __forceinline__ float to_float(signed char x) { return static_cast<float>(x); }
__device__ __forceinline__ float to_float(fp8 x) {
  const unsigned magnitude = x.bits & 0x7fu, sign = static_cast<unsigned>(x.bits >> 7) << 31;
  const float value =
      __uint_as_float(magnitude << 20) * 0x1p120f;  // rebias; exact for subnormals (below 2^-6), too
  return __uint_as_float((magnitude == 0x7f ? 0x7fc00000u : __float_as_uint(value)) | sign);
}

__device__ __forceinline__ float to_float(ue4m3 x) { return to_float(fp8{x.bits}); }
__device__ __forceinline__ float to_float(ue8m0 x) {
  return __uint_as_float(x.bits == 0xff ? 0x7fc00000u : static_cast<unsigned>(x.bits) << 23);
}

/// Two instructions per element: permute, subtract.
template <int N>
__device__ __forceinline__ Vec<float, N> to_float(const Vec<signed char, N>& x) {
  Vec<float, N> y;
  if constexpr (N % 4 == 0) {
    const unsigned* words = reinterpret_cast<const unsigned*>(&x);
#pragma unroll
    for (int i = 0; i < N; ++i)  // 2^23 + 128 + x
      y[i] =
          __uint_as_float(__byte_perm(words[i / 4] ^ 0x80808080u, 0x4b000000u, 0x7440u | i % 4)) - 8388736.0f;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = to_float(x[i]);
  }
  return y;
}
/// Rounds to nearest even and saturates: int8 at -127 and 127, fp8 at -448 and 448.
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

/// Four values as from_float<fp8>() rounds them, the first in the lowest byte.
__device__ __forceinline__ unsigned pack4_fp8(float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 890
  unsigned short low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  return static_cast<unsigned>(high) << 16 | low;
#else
  return static_cast<unsigned>(from_float<fp8>(d).bits) << 24 | from_float<fp8>(c).bits << 16 |
         from_float<fp8>(b).bits << 8 | from_float<fp8>(a).bits;
#endif
}

/// The magnitude.
template <>
__device__ __forceinline__ ue4m3 from_float<ue4m3>(float x) {
  return {from_float<fp8>(fabsf(x)).bits};
}
/// The magnitude, rounded down to a power of two.
template <>
__device__ __forceinline__ ue8m0 from_float<ue8m0>(float x) {
  return {static_cast<unsigned char>(__float_as_uint(x) >> 23 & 0xffu)};
}

/// The four values of a register as two pairs of fp16: 0 and 1, 2 and 3 (adjacent), or 0 and 2, 1 and 3
/// (interleaved).
struct Fp16Pairs {
  unsigned first, second;
};

/// The byte 0x64 above x with its sign bit flipped is the fp16 value x + 1152; subtracting 1152 is exact.
template <bool kAdjacent>
__device__ __forceinline__ Fp16Pairs to_fp16_pairs(unsigned packed, signed char) {
  const unsigned x = packed ^ 0x80808080u;
  Fp16Pairs y = {__byte_perm(x, 0x64646464u, kAdjacent ? 0x4140 : 0x4240),
                 __byte_perm(x, 0x64646464u, kAdjacent ? 0x4342 : 0x4341)};
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y.first) : "r"(0x64806480u));
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y.second) : "r"(0x64806480u));
  return y;
}
/// One instruction for two values on sm_89 and newer. Before, two bytes in the high halves are shifted into
/// the place of exponent and mantissa of fp16, whose bias is larger by 8; a NaN, the largest magnitude, gets
/// the exponent of one.
template <bool kAdjacent>
__device__ __forceinline__ Fp16Pairs to_fp16_pairs(unsigned packed, fp8) {
  Fp16Pairs y;
#if __CUDA_ARCH__ >= 890
  const unsigned x = kAdjacent ? packed : __byte_perm(packed, 0, 0x3120);
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y.first) : "h"(static_cast<unsigned short>(x)));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y.second) : "h"(static_cast<unsigned short>(x >> 16)));
#else
  y = {__byte_perm(packed, 0, kAdjacent ? 0x1404 : 0x2404),
       __byte_perm(packed, 0, kAdjacent ? 0x3424 : 0x3414)};
  for (unsigned* pair : {&y.first, &y.second}) {
    *pair = (*pair >> 1 & 0x3f803f80u) | (*pair & 0x80008000u);
    *pair |= (*pair + 0x00800080u) & 0x40004000u;
    asm("mul.f16x2 %0, %0, %1;" : "+r"(*pair) : "r"(0x5c005c00u));  // 256, exact
  }
#endif
  return y;
}

/// Fours through pairs of fp16.
template <int N>
__device__ __forceinline__ Vec<float, N> to_float(const Vec<fp8, N>& x) {
  Vec<float, N> y;
  if constexpr (N % 4 == 0) {
    const unsigned* words = reinterpret_cast<const unsigned*>(&x);
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const Fp16Pairs pairs = to_fp16_pairs<true>(words[i / 4], fp8{});
      y[i] = to_float(fp16{static_cast<unsigned short>(pairs.first & 0xffffu)});
      y[i + 1] = to_float(fp16{static_cast<unsigned short>(pairs.first >> 16)});
      y[i + 2] = to_float(fp16{static_cast<unsigned short>(pairs.second & 0xffffu)});
      y[i + 3] = to_float(fp16{static_cast<unsigned short>(pairs.second >> 16)});
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = to_float(x[i]);
  }
  return y;
}

}  // namespace warptune
