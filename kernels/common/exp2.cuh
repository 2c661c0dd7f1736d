#pragma once
// Powers of two by the special function unit (about 2 units in the last place; 0 for -infinity).

namespace warptune {

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

inline constexpr float kLog2e = 1.4426950408889634f;

}  // namespace warptune
