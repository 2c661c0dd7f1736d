// Tiled GEMM on CUDA cores (SIMT) with register blocking, for many tokens and any dtype.
// Tiles: a block computes kTileM tokens x kTileN output rows in steps of kTileK; a thread kMicroM x kMicroN
//   accumulators in fp32.
// Loads: all threads load both tiles, widen them to fp32 and store them transposed, [k][row], with 4
//   columns of padding; two __syncthreads() per step, one stage.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"

namespace warptune {

/// Loads rows [row0, row0 + kTile), columns [k0, k0 + kTileK) of a [rows, kIn] matrix to to[k][row]; zeros
/// beyond its edges.
template <class T, int kIn, int kTile, int kTileK, int kThreads>
__device__ __forceinline__ void load_tile(const T* from, int row0, int rows, int k0, float (*to)[kTile + 4]) {
  constexpr int kVec = vec_width<T>(kIn), kPerRow = kTileK / kVec, kVectors = kTile * kPerRow;
#pragma unroll
  for (int i = 0; i < ceil_div(kVectors, kThreads); ++i) {
    const int vector = static_cast<int>(threadIdx.x) + i * kThreads;
    if (vector < kVectors) {
      const int row = vector / kPerRow, k = vector % kPerRow * kVec;
      Vec<float, kVec> f;
#pragma unroll
      for (int j = 0; j < kVec; ++j) f[j] = 0;
      if (row0 + row < rows && k0 + k < kIn)
        f = to_float(load_vec<kVec>(from + static_cast<long long>(row0 + row) * kIn + k0 + k));
#pragma unroll
      for (int j = 0; j < kVec; ++j) to[k + j][row] = f[j];
    }
  }
}

/// Thread (tx, ty) owns rows ty*4 + {0..3} and columns tx*4 + {0..3} of every sub-tile. Sub-tiles are 4 *
/// threads apart, so that neighboring threads read neighboring 16 bytes of shared memory.
template <class T, int kIn, int kOut, int kBias, int kTileM, int kTileN, int kTileK, int kMicroM, int kMicroN>
__global__ void __launch_bounds__((kTileM / kMicroM) * (kTileN / kMicroN)) linear_tiled(LinearArgs args) {
  constexpr int kThreadsM = kTileM / kMicroM, kThreadsN = kTileN / kMicroN, kThreads = kThreadsM * kThreadsN;
  static_assert(kTileM % kMicroM == 0 && kTileN % kMicroN == 0 && kMicroM % 4 == 0 && kMicroN % 4 == 0);
  static_assert(kTileK % kVec16<T> == 0);
  __shared__ alignas(16) float xs[kTileK][kTileM + 4];
  __shared__ alignas(16) float ws[kTileK][kTileN + 4];
  const int tx = threadIdx.x % kThreadsN, ty = threadIdx.x / kThreadsN;
  const int out0 = static_cast<int>(blockIdx.x) * kTileN, token0 = static_cast<int>(blockIdx.y) * kTileM;
  float sum[kMicroM][kMicroN] = {};
  pdl_wait();

  for (int k0 = 0; k0 < kIn; k0 += kTileK) {
    load_tile<T, kIn, kTileM, kTileK, kThreads>(static_cast<const T*>(args.x), token0, args.tokens, k0, xs);
    load_tile<T, kIn, kTileN, kTileK, kThreads>(static_cast<const T*>(args.weight), out0, kOut, k0, ws);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kTileK; ++k) {
      float a[kMicroM], b[kMicroN];
#pragma unroll
      for (int i = 0; i < kMicroM; i += 4) {
        const auto v = load_vec<4>(&xs[k][i * kThreadsM + ty * 4]);
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i + j] = v[j];
      }
#pragma unroll
      for (int i = 0; i < kMicroN; i += 4) {
        const auto v = load_vec<4>(&ws[k][i * kThreadsN + tx * 4]);
#pragma unroll
        for (int j = 0; j < 4; ++j) b[i + j] = v[j];
      }
#pragma unroll
      for (int i = 0; i < kMicroM; ++i)
#pragma unroll
        for (int j = 0; j < kMicroN; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kMicroM; ++i) {
    const int token = token0 + i / 4 * 4 * kThreadsM + ty * 4 + i % 4;
    if (token >= args.tokens) continue;
    T* y = static_cast<T*>(args.y) + static_cast<long long>(token) * kOut;
#pragma unroll
    for (int j = 0; j < kMicroN; ++j) {
      const int out = out0 + j / 4 * 4 * kThreadsN + tx * 4 + j % 4;
      if (out < kOut) {
        float value = sum[i][j];
        if constexpr (kBias != 0) value += to_float(static_cast<const T*>(args.bias)[out]);
        y[out] = from_float<T>(value);
      }
    }
  }
}

}  // namespace warptune
