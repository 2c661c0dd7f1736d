#pragma once
// The rotation of a position in few instructions: a kernel of microseconds waits for those of sincosf, whose
// path for large angles is longer than all the rest of a rotation.

namespace warptune {

/// Cosine and sine of an angle of at most 2^17, each with an error below 2e-6: full turns are taken off in
/// two parts (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
__device__ __forceinline__ float2 cosine_sine(float angle) {
  const float turns = rintf(angle * 0.159154943f);
  const float rest = fmaf(turns, 1.74845553e-7f, fmaf(turns, -6.28318548f, angle));
  return {__cosf(rest), __sinf(rest)};
}

}  // namespace warptune
