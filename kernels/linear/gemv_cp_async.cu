// Multistage cp.async GEMV (sm_80), persistent blocks, for few tokens.
// Grid: persistent; warp w of block b computes output rows w * blocks + b + i * blocks * kWarps, so that
//   blocks that run together read neighboring rows.
// Loads: every warp has a pipeline of its own of kStages stages of kUnroll * 32 vectors of 16 bytes, which
//   continues across the ends of rows. Shared memory, not registers, holds the bytes in flight. The first
//   kStages - 1 stages are loaded before pdl_wait(). x is read from global memory (L1, L2) for every row.
// Sync: none before argmax (argmax.cuh). A thread reads back only what it has copied itself, after
//   cp_async_wait().
// Fused: every block normalizes x for itself (BlockNorm) and keeps it in shared memory; with SwiGLU a warp
//   computes the gate of an output and then its up.
// Rows are multiples of 16 bytes. Shared memory: stages, then x [kTokens][kIn] where it is normalized.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/linear/argmax.cuh"
#include "kernels/linear/fused.cuh"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kPrologue, int kEpilogue, int kWarps,
          int kStages, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_cp_async(LinearArgsOf<kPrologue, kEpilogue> args) {
  constexpr int kRows = kEpilogue == kEpilogueSwiglu ? 2 : 1;  // of weight, one after the other, per output
  constexpr int kVec = kVec16<T>, kVectors = kIn / kVec;
  constexpr int kSteps = ceil_div(kVectors, 32 * kUnroll);  // stages per row
  static_assert(kIn % kVec == 0);
  [[maybe_unused]] static constexpr int kSharedBytes =
      kWarps * kStages * kUnroll * 512 + (kPrologue == kPrologueNone ? 0 : kTokens * kIn * sizeof(T));
  extern __shared__ uint4 stages[];  // [kWarps][kStages][kUnroll][32]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4* own = stages + warp * (kStages * kUnroll * 32) + lane;
  const int first = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  const T* weight = static_cast<const T*>(args.weight);
  const T* x = static_cast<const T*>(args.x);

  int load_row = first, load_half = 0, load_step = 0, load_stage = 0;
  auto load = [&] {  // the next stage; an empty group after the last row
    if (load_row < kOut) {
      const T* from = weight + static_cast<long long>(load_row + load_half * kOut) * kIn;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int vector = (load_step * kUnroll + u) * 32 + lane;
        if (vector < kVectors) cp_async_16(own + (load_stage * kUnroll + u) * 32, from + vector * kVec);
      }
      if (++load_step == kSteps) {
        load_step = 0;
        if (kRows == 1 || ++load_half == kRows) {
          load_half = 0;
          load_row += stride;
        }
      }
    }
    cp_async_commit();
    load_stage = load_stage + 1 == kStages ? 0 : load_stage + 1;
  };

  // Load prologue.
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) load();
  using Keys = BlockKeys<T, kOut, kEpilogue, kTokens>;
  Keys::clear();
  BlockNorm<T, kTokens, kIn, kWarps * 32> norm;
  if constexpr (kPrologue == kPrologueRmsNorm) {
    T* const normalized = reinterpret_cast<T*>(stages + kWarps * kStages * kUnroll * 32);
    norm.load_weights(args.norm_weight);
    pdl_launch_dependents();
    pdl_wait();
    norm.load_x(normalized, x, args.eps);
    x = normalized;
  } else {
    pdl_launch_dependents();
    pdl_wait();
#pragma unroll
    for (int t = 0; t < kTokens; ++t) norm.scales[t] = 1;
  }

  // Main loop.
  int stage = 0;
  for (int row = first; row < kOut; row += stride) {
    [[maybe_unused]] float gate[kTokens];
    float residual[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) residual[t] = load_residual<T, kOut, kEpilogue>(args, t, row);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
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
        float total = norm.scales[t] * warp_reduce<Sum>(sum[t]);
        if (r + 1 < kRows) {
          gate[t] = total;
        } else if (lane == 0) {
          if constexpr (kEpilogue == kEpilogueSwiglu) total *= silu(gate[t]);
          Keys::add(t, store_output<T, kOut, kBias, kEpilogue>(args, t, row, total, residual[t]), row);
        }
      }
    }
  }
  cp_async_wait<0>();
  Keys::template write<kWarps * 32>(args);
}

}  // namespace warptune
