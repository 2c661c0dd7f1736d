#pragma once
// TF32 tensor cores of a warp: mma.sync m16n8k8 (sm_80), D[16x8] += A[16x8] * B[8x8], fp32 accumulators. TF32
// is fp32 with 10 bits of mantissa. Fragments as in the PTX manual, "Matrix fragments for mma.m16n8k8": with
// g = lane / 4, t = lane % 4, A: a0 (row g, k t), a1 (row g+8, k t), a2 (row g, k t+4), a3 (row g+8, k t+4);
// B: b0 (k t, col g), b1 (k t+4, col g); D as of m16n8k16 (mma.cuh). ldmatrix_x4 reads A, and B from rows
// along k, as it does for 16 bits: a 16-byte row of a matrix is four fp32.
#include "kernels/common/numeric.cuh"

namespace warptune {

__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                                 unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// The bits of x rounded to TF32, to nearest, ties away from zero.
__device__ __forceinline__ unsigned round_to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/// x as the sum of two TF32 numbers, up to 2^-22 of x (3xTF32).
__device__ __forceinline__ void split_tf32(float x, unsigned& big, unsigned& small) {
  big = round_to_tf32(x);
  small = round_to_tf32(x - __uint_as_float(big));
}

}  // namespace warptune
