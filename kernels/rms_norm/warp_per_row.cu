// RMSNorm with one warp per token: reductions by shuffles only, no barrier.
// Grid: kRows warps per block, one token each. Up to 256 bytes of a row per lane stay in registers; a
//   longer row is read again, from L1 or L2, for the scaling.
// Wins: many tokens with short rows.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/args.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kRows * 32) rms_norm_warp_per_row(RmsNormArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerLane = ceil_div(kVectors, 32);
  constexpr bool kInRegisters = kPerLane * kVec * static_cast<int>(sizeof(T)) <= 256;
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32;
  const long long token = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (token >= args.tokens) return;
  const T* x = static_cast<const T*>(args.x) + token * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + token * kHidden;

  float squares = 0;
  const auto write = [&](const Vec<T, kVec>& v, int vector, float scale) {
    store_scaled<kCacheHint>(y + vector * kVec, v, scale, load_vec<kVec>(weight + vector * kVec));
  };

  if constexpr (kInRegisters) {
    Vec<T, kVec> in[kPerLane];
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kVectors) in[j] = load_vec_hint<kVec>(x + (lane + 32 * j) * kVec);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kVectors) add_squares(squares, in[j]);
    const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kVectors) write(in[j], lane + 32 * j, scale);
  } else {
#pragma unroll 8
    for (int vector = lane; vector < kVectors; vector += 32)
      add_squares(squares, load_vec<kVec>(x + vector * kVec));
    const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll 8
    for (int vector = lane; vector < kVectors; vector += 32)
      write(load_vec<kVec>(x + vector * kVec), vector, scale);
  }
}

}  // namespace warptune
