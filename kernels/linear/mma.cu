// Multistage tensor-core GEMM (mma.sync m16n8k16, cp.async, sm_80), for 2 tokens and more.
// Grid: (token tiles, output-row tiles): blocks that run together read the same weights.
// Tiles: a block computes kTileM tokens x kTileN output rows in steps of kTileK; kWarpsM x kWarpsN warps,
//   fp32 accumulators in registers.
// Loads: all threads copy tiles of x and weight to kStages stages with cp.async; the first weights before
//   pdl_wait(). Rows of a stage are padded by 16 bytes, so that ldmatrix has no bank conflicts.
// Sync: cp_async_wait() and one __syncthreads() per step.
// Epilogue: bias, then stores straight from the accumulators.
// `in` is a multiple of 8. Source: CUTLASS, multistage GEMM for sm_80.
#include "kernels/common/mma.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/args.h"

namespace warptune {

/// Starts the copy of rows [row0, row0 + kRows), columns [k0, k0 + kTileK) of a [rows, kIn] matrix to a
/// padded tile; zeros beyond its edges.
template <class T, int kIn, int kRows, int kTileK, int kThreads>
__device__ __forceinline__ void copy_tile(T* to, const T* from, int row0, int rows, int k0) {
  constexpr int kPerRow = kTileK / 8, kVectors = kRows * kPerRow;
#pragma unroll
  for (int i = 0; i < ceil_div(kVectors, kThreads); ++i) {
    const int vector = static_cast<int>(threadIdx.x) + i * kThreads;
    if (vector < kVectors) {
      const int row = vector / kPerRow, k = vector % kPerRow * 8;
      const bool valid = row0 + row < rows && k0 + k < kIn;
      const T* source = valid ? from + static_cast<long long>(row0 + row) * kIn + k0 + k : from;
      cp_async_16(to + row * (kTileK + 8) + k, source, valid);
    }
  }
}

template <class T, int kOut>
__device__ __forceinline__ void load_bias(float (&bias)[2], const void* from, int out) {
#pragma unroll
  for (int j = 0; j < 2; ++j)
    if (out + j < kOut) bias[j] = to_float(static_cast<const T*>(from)[out + j]);
}
/// Writes outputs `out` and out + 1 of a token to `y`.
template <class T, int kOut>
__device__ __forceinline__ void store_pair(T* y, int out, float first, float second) {
  if (kOut % 2 == 0) {
    if (out < kOut) *reinterpret_cast<unsigned*>(y) = pack2<T>(first, second);
  } else {
    if (out < kOut) y[0] = from_float<T>(first);
    if (out + 1 < kOut) y[1] = from_float<T>(second);
  }
}

/// sum += x . weight^T of one stage: the warp's tile begins at row warp_m of the padded tile
/// xs and row warp_n of ws.
template <class T, int kTileK, int kMTiles, int kNTiles>
__device__ __forceinline__ void multiply_stage(float (&sum)[kMTiles][kNTiles][4], const T* xs, const T* ws,
                                               int warp_m, int warp_n, int lane) {
  constexpr int kPitch = kTileK + 8;
#pragma unroll
  for (int k = 0; k < kTileK; k += 16) {
    unsigned a[kMTiles][4];
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
      ldmatrix_x4(a[m], xs + (warp_m + m * 16 + lane % 16) * kPitch + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < kNTiles / 2; ++n) {
      unsigned b[4];  // b0, b1 of output rows 0..7, then of 8..15
      ldmatrix_x4(b, ws + (warp_n + n * 16 + lane / 16 * 8 + lane % 8) * kPitch + k + lane / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < kMTiles; ++m) {
        mma_m16n8k16<T>(sum[m][2 * n], a[m], b[0], b[1]);
        mma_m16n8k16<T>(sum[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// Epilogue: adds the bias and stores the tile of a warp, which begins at token0 + warp_m and out0 + warp_n.
template <class T, int kOut, int kBias, int kMTiles, int kNTiles>
__device__ __forceinline__ void store_tile(const LinearArgs& args, const float (&sum)[kMTiles][kNTiles][4],
                                           int token0, int out0, int warp_m, int warp_n, int lane) {
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
    const int out = out0 + warp_n + n * 8 + lane % 4 * 2;
    float bias[2] = {0, 0};
    if constexpr (kBias != 0) load_bias<T, kOut>(bias, args.bias, out);
#pragma unroll
    for (int m = 0; m < kMTiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int token = token0 + warp_m + m * 16 + half * 8 + lane / 4;
        if (token >= args.tokens) continue;
        store_pair<T, kOut>(static_cast<T*>(args.y) + static_cast<long long>(token) * kOut + out, out,
                            sum[m][n][2 * half] + bias[0], sum[m][n][2 * half + 1] + bias[1]);
      }
  }
}

template <class T, int kIn, int kOut, int kBias, int kTileM, int kTileN, int kTileK, int kWarpsM, int kWarpsN,
          int kStages>
__global__ void __launch_bounds__(kWarpsM* kWarpsN * 32) linear_mma(LinearArgs args) {
  constexpr int kThreads = kWarpsM * kWarpsN * 32, kSteps = ceil_div(kIn, kTileK);
  constexpr int kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;  // the tile of a warp
  constexpr int kPitch = kTileK + 8;                                   // elements of a padded row
  constexpr int kStage = (kTileM + kTileN) * kPitch;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kTileK % 16 == 0 && kIn % 8 == 0 && kStages >= 2);
  [[maybe_unused]] static constexpr int kSharedBytes = kStages * kStage * sizeof(T);
  extern __shared__ uint4 shared[];  // [kStages][x: kTileM, weight: kTileN][kPitch]
  T* const tiles = reinterpret_cast<T*>(shared);
  const int token0 = static_cast<int>(blockIdx.x) * kTileM, out0 = static_cast<int>(blockIdx.y) * kTileN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_m = warp / kWarpsN * kWarpM, warp_n = warp % kWarpsN * kWarpN;

  auto copy_x = [&](int step) {
    copy_tile<T, kIn, kTileM, kTileK, kThreads>(
        tiles + step % kStages * kStage, static_cast<const T*>(args.x), token0, args.tokens, step * kTileK);
  };
  auto copy_weight = [&](int step) {
    copy_tile<T, kIn, kTileN, kTileK, kThreads>(tiles + step % kStages * kStage + kTileM * kPitch,
                                                static_cast<const T*>(args.weight), out0, kOut,
                                                step * kTileK);
  };

  // Load prologue: weights before pdl_wait(), x after it. The first cp.async group holds x of step 0 and the
  // weights of all kStages - 1 steps.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s)
    if (s < kSteps) copy_weight(s);
  pdl_launch_dependents();
  pdl_wait();
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < kSteps) copy_x(s);
    cp_async_commit();
  }

  // Main loop.
  float sum[kWarpM / 16][kWarpN / 8][4] = {};
  for (int step = 0; step < kSteps; ++step) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    if (const int next = step + kStages - 1; next < kSteps) {
      copy_x(next);
      copy_weight(next);
    }
    cp_async_commit();
    const T* xs = tiles + step % kStages * kStage;
    const T* ws = xs + kTileM * kPitch;
    multiply_stage<T, kTileK>(sum, xs, ws, warp_m, warp_n, lane);
  }

  store_tile<T, kOut, kBias>(args, sum, token0, out0, warp_m, warp_n, lane);
}

}  // namespace warptune
