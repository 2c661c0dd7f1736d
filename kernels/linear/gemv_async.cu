// Idea: persistent blocks; every warp streams its rows through a ring of its own in shared memory, filled by
// 16-byte cp.async, across the ends of rows. The ring, not the registers, holds the bytes in flight, and it
// is full before the kernel waits for its predecessor. A thread reads back only what it copied itself, so
// that no barrier is needed. Rows are whole multiples of 16 bytes.
#include "kernels/common/cp_async.cuh"
#include "kernels/common/pdl.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vec.cuh"
#include "kernels/linear/args.h"

namespace warptune {

template <class T, int kTokens, int kIn, int kOut, int kBias, int kWarps, int kStages, int kUnroll>
__global__ void __launch_bounds__(kWarps * 32) linear_gemv_async(LinearArgs args) {
  constexpr int kVec = kVec16<T>, kPieces = kIn / kVec;
  constexpr int kSteps = ceil_div(kPieces, 32 * kUnroll);  // ring stages per row
  static_assert(kIn % kVec == 0);
  extern __shared__ uint4 ring[];  // [kWarps][kStages][kUnroll][32]
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4* own = ring + warp * (kStages * kUnroll * 32) + lane;
  // Neighbouring blocks take neighbouring rows: warp w of block b starts at row w * blocks + b.
  const int first = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int stride = static_cast<int>(gridDim.x) * kWarps;
  const T* weight = static_cast<const T*>(args.weight);
  const T* x = static_cast<const T*>(args.x);
  T* y = static_cast<T*>(args.y);

  int fill_row = first, fill_step = 0, fill_stage = 0;
  auto fill = [&] {
    if (fill_row < kOut) {
      const T* from = weight + static_cast<long long>(fill_row) * kIn;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int piece = (fill_step * kUnroll + u) * 32 + lane;
        if (piece < kPieces) cp_async_16(own + (fill_stage * kUnroll + u) * 32, from + piece * kVec);
      }
      if (++fill_step == kSteps) {
        fill_step = 0;
        fill_row += stride;
      }
    }
    cp_async_commit();
    fill_stage = fill_stage + 1 == kStages ? 0 : fill_stage + 1;
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fill();
  pdl_launch_dependents();
  pdl_wait();

  int stage = 0;
  for (int row = first; row < kOut; row += stride) {
    float sum[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) sum[t] = 0;
    for (int step = 0; step < kSteps; ++step) {
      fill();
      cp_async_wait<kStages - 1>();
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int piece = (step * kUnroll + u) * 32 + lane;
        if (piece < kPieces) {
          const auto f = to_float(*reinterpret_cast<const Vec<T, kVec>*>(own + (stage * kUnroll + u) * 32));
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            const auto g = to_float(load_vec<kVec>(x + t * kIn + piece * kVec));
#pragma unroll
            for (int i = 0; i < kVec; ++i) sum[t] = fmaf(f[i], g[i], sum[t]);
          }
        }
      }
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
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
