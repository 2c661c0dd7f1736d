#pragma once
// Powers of two by the special function unit (about 2 units in the last place; 0 for -infinity).

namespace warptune {

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The same on the fused multiply-add units (relative error 1e-4; 0 for -127 and below): the integral
/// part goes to the exponent, a minimax polynomial takes the rest (Cody and Waite).
__device__ __forceinline__ float exp2_polynomial(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: its sum's last bits are the nearest integer
  x = fmaxf(x, -127.0f);
  const float shifted = x + kShift;
  const float rest = x - (shifted - kShift);
  const float y = fmaf(fmaf(fmaf(0.05500893f, rest, 0.24221096f), rest, 0.69328293f), rest, 1.0f);
  return __int_as_float(__float_as_int(y) + (__float_as_int(shifted) << 23));
}

inline constexpr float kLog2e = 1.4426950408889634f;

}  // namespace warptune
