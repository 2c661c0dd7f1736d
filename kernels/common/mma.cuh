#pragma once
// Tensor cores of a warp: mma.sync m16n8k16 (sm_80), D[16x8] += A[16x16] * B[16x8], 16-bit inputs, fp32
// accumulators; and ldmatrix (sm_75) and stmatrix (sm_90), which move its fragments from and to shared
// memory. Fragments as in the PTX manual, "Matrix fragments for mma.m16n8k16": with g = lane / 4, t = lane %
// 4, A: a0 (row g, k 2t..2t+1), a1 (row g+8), a2 (row g, k 2t+8..), a3 (row g+8, k 2t+8..); B: b0 (k
// 2t..2t+1, col g), b1 (k 2t+8.., col g); D: d0,d1 (row g, cols 2t, 2t+1), d2,d3 (row g+8).
#include "kernels/common/cp_async.cuh"
#include "kernels/common/numeric.cuh"

namespace warptune {

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

template <>
__device__ __forceinline__ void mma_m16n8k16<bf16>(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                                   unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma_m16n8k16<fp16>(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                                   unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// mma.sync of unsigned by signed bytes, int32 accumulators, m16n8k32. A: a0 (row g, k 4t..4t+3), a1 (row
/// g+8), a2 (row g, k 16+4t..), a3 (row g+8); B: b0 (k 4t..4t+3, col g), b1 (k 16+4t..); D as above.
__device__ __forceinline__ void mma_m16n8k32(int (&d)[4], uint4 a, uint2 b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}
/// The same, m16n8k16: the first halves of A and B.
__device__ __forceinline__ void mma_m16n8k16(int (&d)[4], uint2 a, unsigned b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a.x), "r"(a.y), "r"(b));
}

/// ldmatrix: four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
/// Loops that pass a 32-bit shared address (see shared_address()) instead of a pointer take half the
/// registers, and constant offsets fold into the instruction.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* shared_row) {
  ldmatrix_x4(r, shared_address(shared_row));
}

/// ldmatrix of two matrices; lanes 0 to 15 give the addresses.
__device__ __forceinline__ void ldmatrix_x2(unsigned& r0, unsigned& r1, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(address));
}

/// ldmatrix_x4, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* shared_row) {
  ldmatrix_x4_trans(r, shared_address(shared_row));
}

/// stmatrix (sm_90), the inverse of ldmatrix: lane i holds elements 2 * (i % 4) and the next of row i / 4 of
/// each matrix. Lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j, 16 bytes each.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace warptune
