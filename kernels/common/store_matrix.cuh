#pragma once
// stmatrix (sm_90): what ldmatrix reads, written. PTX manual: "stmatrix".
#include "kernels/common/async_copy.cuh"

namespace warptune {

/// Four 8x8 matrices of 16-bit elements, lane i holding elements 2 * (i % 4) and the next of row i / 4 of
/// each. Lanes 8 j to 8 j + 7 say where the rows of matrix j go, 16 bytes each.
__device__ __forceinline__ void store_matrix_x4_at(unsigned address, const unsigned (&r)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#endif
}

}  // namespace warptune
