#pragma once
// Transposes of 16-bit matrices in the registers of a warp.
#include "kernels/common/numeric.cuh"

namespace warptune {

/// movmatrix: transposes an 8x8 matrix of 16-bit elements. Lane i holds elements 2 * (i % 4) and the next of
/// row i / 4, before and after.
__device__ __forceinline__ unsigned matrix_transpose(unsigned pair) {
  unsigned transposed;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

/// Lanes whose `upper` differs, kMask apart, swap: x1 of the lower lane for x0 of the upper one.
template <int kMask>
__device__ __forceinline__ void swap_with_lane(unsigned& x0, unsigned& x1, bool upper) {
  const unsigned other = __shfl_xor_sync(0xffffffffu, upper ? x0 : x1, kMask);
  x0 = upper ? other : x0;
  x1 = upper ? x1 : other;
}
/// Transposes the 4x4 matrix of a quad of lanes: x[i] of lane j becomes x[j] of lane i.
__device__ __forceinline__ void quad_transpose(unsigned (&x)[4], int lane) {
  const bool odd = lane & 1, upper = lane & 2;
  swap_with_lane<1>(x[0], x[1], odd);
  swap_with_lane<1>(x[2], x[3], odd);
  swap_with_lane<2>(x[0], x[2], upper);
  swap_with_lane<2>(x[1], x[3], upper);
}

}  // namespace warptune
