#pragma once
// Four 8-bit codes of a register as two registers of fp16 pairs, exactly: the inputs of tensor-core products.
#include "common/numeric.cuh"

namespace warptune {

/// Elements 0 and 1, 2 and 3 of a register (neighbours), or 0 and 2, 1 and 3 (every other).
struct CodePairs {
  unsigned first, second;
};

/// int8: 1152 + code is the fp16 0x6480 + code, so that the code with its sign bit flipped, below 0x64, is
/// 1152 more than it should be.
template <bool kNeighbours>
__device__ __forceinline__ CodePairs to_fp16_pairs(unsigned codes, signed char) {
  const unsigned x = codes ^ 0x80808080u;
  CodePairs y = {__byte_perm(x, 0x64646464u, kNeighbours ? 0x4140 : 0x4240),
                 __byte_perm(x, 0x64646464u, kNeighbours ? 0x4342 : 0x4341)};
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y.first) : "r"(0x64806480u));
  asm("sub.f16x2 %0, %0, %1;" : "+r"(y.second) : "r"(0x64806480u));
  return y;
}

/// fp8 (e4m3), sm_89 and newer.
template <bool kNeighbours>
__device__ __forceinline__ CodePairs to_fp16_pairs(unsigned codes, fp8) {
  CodePairs y = {};
#if __CUDA_ARCH__ >= 890
  const unsigned x = kNeighbours ? codes : __byte_perm(codes, 0, 0x3120);
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y.first) : "h"(static_cast<unsigned short>(x)));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y.second) : "h"(static_cast<unsigned short>(x >> 16)));
#endif
  return y;
}

}  // namespace warptune
