// Multistage cp.async GEMV (sm_80), persistent blocks, for few tokens.
// Grid: persistent; warp w of block b computes output rows w * blocks + b + i * blocks * kWarps, so that
//   blocks that run together read neighboring rows.
// Loads: every warp has a pipeline of its own of kStages stages of kUnroll * 32 vectors of 16 bytes, which
//   continues across the ends of rows. Shared memory, not registers, holds the bytes in flight. The first
//   kStages - 1 stages are loaded before pdl_wait(). x is read from global memory (L1, L2) for every row.
// Sync: none. A thread reads back only what it has copied itself, after cp_async_wait().
// Rows are whole multiples of 16 bytes.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kWarps, int kStages, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_cp_async(LinearArgs args) {
  constexpr int kVec = kVec16<T>, kVectors = kIn / kVec;
  constexpr int kSteps = ceil_div(kVectors, 32 * kUnroll);  // stages per row
  static_assert(kIn % kVec == 0);
  extern __shared__ uint4 stages[];  // [kWarps][kStages][kUnroll][32]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4* own = stages + warp * (kStages * kUnroll * 32) + lane;
  const int first = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  const T* weight = static_cast<const T*>(args.weight);
  const T* x = static_cast<const T*>(args.x);
  T* y = static_cast<T*>(args.y);

  int load_row = first, load_step = 0, load_stage = 0;
  auto load = [&] {  // the next stage; an empty group after the last row
    if (load_row < kOut) {
      const T* from = weight + static_cast<long long>(load_row) * kIn;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int vector = (load_step * kUnroll + u) * 32 + lane;
        if (vector < kVectors) cp_async_16(own + (load_stage * kUnroll + u) * 32, from + vector * kVec);
      }
      if (++load_step == kSteps) {
        load_step = 0;
        load_row += stride;
      }
    }
    cp_async_commit();
    load_stage = load_stage + 1 == kStages ? 0 : load_stage + 1;
  };

  // Load prologue.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load();
  pdl_launch_dependents();
  pdl_wait();

  // Main loop.
  int stage = 0;
  for (int row = first; row < kOut; row += stride) {
    float sum[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) sum[t] = 0;
    for (int step = 0; step < kSteps; ++step) {
      load();
      cp_async_wait<kStages - 1>();
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int vector = (step * kUnroll + u) * 32 + lane;
        if (vector < kVectors) {
          const auto f = to_float(*reinterpret_cast<const Vec<T, kVec>*>(own + (stage * kUnroll + u) * 32));
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const auto g = to_float(load_vec<kVec>(x + t * kIn + vector * kVec));
#pragma unroll
            for (int i = 0; i < kVec; ++i) sum[t] = fmaf(f[i], g[i], sum[t]);
          }
        }
      }
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    // Epilogue of a row.
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      float total = warp_reduce<Sum>(sum[t]);
      if (lane == 0) {
        if constexpr (kBias != 0) total += to_float(static_cast<const T*>(args.bias)[row]);
        y[static_cast<long long>(t) * kOut + row] = from_float<T>(total);
      }
    }
  }
  cp_async_wait<0>();
}

}  // namespace warptune
