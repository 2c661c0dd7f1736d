#pragma once
// Arithmetic on pairs of 16-bit floats in a register.
#include "kernels/common/numeric.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// The values of a register.
template <class T>
__device__ __forceinline__ Vec<float, 2> unpack2(unsigned pair) {
  if constexpr (is_same<T, bf16>)
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  else
    return to_float(*reinterpret_cast<const Vec<T, 2>*>(&pair));
}
/// a * b + c, rounded once.
template <class T>
__device__ __forceinline__ unsigned fma_pairs(unsigned a, unsigned b, unsigned c) {
  unsigned y;
  if constexpr (is_same<T, bf16>)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}
/// a * b. sm_80 has no product of bf16: -0 is the neutral element of its addition.
template <class T>
__device__ __forceinline__ unsigned multiply_pairs(unsigned a, unsigned b) {
  if constexpr (is_same<T, bf16>) return fma_pairs<T>(a, b, 0x80008000u);
  unsigned y;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
/// a * b * scale, rounded once.
template <class T>
__device__ __forceinline__ unsigned scale_pairs(unsigned a, unsigned b, float scale) {
  const auto x = to_float(*reinterpret_cast<const Vec<T, 2>*>(&a)),
             y = to_float(*reinterpret_cast<const Vec<T, 2>*>(&b));
  return pack2<T>(x[0] * (y[0] * scale), x[1] * (y[1] * scale));
}
/// `sum` and the squares of a pair.
template <class T>
__device__ __forceinline__ float add_squares(float sum, unsigned pair) {
  const auto v = to_float(*reinterpret_cast<const Vec<T, 2>*>(&pair));
  return fmaf(v[0], v[0], fmaf(v[1], v[1], sum));
}

}  // namespace warptune
