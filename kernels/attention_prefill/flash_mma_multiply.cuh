#pragma once
// The matrix products of flash_mma.cu, by one warp: mma.sync m16n8k16, Q and P in registers or Q from shared
// memory, K and V from tiles of kDim columns in shared memory.
#include "kernels/attention_prefill/swizzled_tile.cuh"
#include "kernels/common/mma.cuh"

namespace warptune {

/// s = q . k^T for the 16 * kRowTiles queries of a warp and kTileN keys.
template <class T, int kDim, int kTileN, SharedLayout kLayout, int kRowTiles, bool kQInRegs, int kQFragments>
__device__ __forceinline__ void multiply_keys(float (&s)[kRowTiles][kTileN / 8][4],
                                              const unsigned (&q_fragments)[kRowTiles][kQFragments][4],
                                              unsigned q, unsigned k) {
  const int lane = threadIdx.x % 32;
  const typename SwizzledTile<T, kDim>::LdmatrixAddress queries(q, lane % 16, lane / 16);
  const typename SwizzledTile<T, kDim, kLayout, kTileN>::LdmatrixAddress keys(k, lane / 16 * 8 + lane % 8,
                                                                              lane / 8 % 2);
#pragma unroll
  for (int mt = 0; mt < kRowTiles; ++mt)
#pragma unroll
    for (int nt = 0; nt < kTileN / 8; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[mt][nt][i] = 0;
#pragma unroll
  for (int kk = 0; kk < kDim / 16; ++kk) {
    unsigned a[kRowTiles][4];
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt) {
      if constexpr (kQInRegs) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[mt][i] = q_fragments[mt][kk][i];
      } else {
        ldmatrix_x4(a[mt], queries.at(kk * 2, mt * 16));
      }
    }
#pragma unroll
    for (int np = 0; np < kTileN / 16; ++np) {
      unsigned b[4];  // keys 0-7: b[0], b[1]; keys 8-15: b[2], b[3]
      ldmatrix_x4(b, keys.at(kk * 2, np * 16));
#pragma unroll
      for (int mt = 0; mt < kRowTiles; ++mt) {
        mma_m16n8k16<T>(s[mt][2 * np], a[mt], b[0], b[1]);
        mma_m16n8k16<T>(s[mt][2 * np + 1], a[mt], b[2], b[3]);
      }
    }
  }
}

/// o += p . v, with p in the registers of the scores.
template <class T, int kDim, int kTileN, SharedLayout kLayout, int kRowTiles>
__device__ __forceinline__ void multiply_values(float (&o)[kRowTiles][kDim / 8][4],
                                                const float (&p)[kRowTiles][kTileN / 8][4], unsigned v) {
  using Tile = SwizzledTile<T, kDim, kLayout, kTileN>;
  const int lane = threadIdx.x % 32;
  const typename Tile::LdmatrixAddress values(v, lane % 16, lane / 16);
#pragma unroll
  for (int kt = 0; kt < kTileN / 16; ++kt) {
    unsigned a[kRowTiles][4];
#pragma unroll
    for (int mt = 0; mt < kRowTiles; ++mt) {
      a[mt][0] = pack2<T>(p[mt][2 * kt][0], p[mt][2 * kt][1]);
      a[mt][1] = pack2<T>(p[mt][2 * kt][2], p[mt][2 * kt][3]);
      a[mt][2] = pack2<T>(p[mt][2 * kt + 1][0], p[mt][2 * kt + 1][1]);
      a[mt][3] = pack2<T>(p[mt][2 * kt + 1][2], p[mt][2 * kt + 1][3]);
    }
#pragma unroll
    for (int dp = 0; dp < kDim / 16; ++dp) {
      unsigned b[4];  // elements 0-7 of the 16: b[0], b[1]; elements 8-15: b[2], b[3]
      ldmatrix_x4_trans(b, values.at(dp * 2, kt * 16));
#pragma unroll
      for (int mt = 0; mt < kRowTiles; ++mt) {
        mma_m16n8k16<T>(o[mt][2 * dp], a[mt], b[0], b[1]);
        mma_m16n8k16<T>(o[mt][2 * dp + 1], a[mt], b[2], b[3]);
      }
    }
  }
}

}  // namespace warptune
