// RMSNorm with one warp per token, with or without a residual add: reductions by shuffles only, no barrier.
// Grid: kRows warps per block, one token each. Up to 256 bytes of a row per lane stay in registers; a
//   longer row is read again, from L1 or L2, for the scaling: with a residual the sum, from residual_out, by
//   the lane that wrote it.
// Loads: kBatch vectors in flight per lane, with a residual of both tensors.
// Wins: many tokens with short rows.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kRows, int kMaxVec, int kCacheHint, class Args>
__device__ __forceinline__ void normalize_warp_per_row(const Args& args) {
  constexpr bool kResidual = kHasResidual<Args>;
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerLane = ceil_div(kVectors, 32);
  constexpr bool kInRegisters = kPerLane * kVec * static_cast<int>(sizeof(T)) <= 256;
  constexpr int kBatch = kResidual ? 4 : kInRegisters ? kPerLane : 8;
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32;
  const long long token = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (token >= args.tokens) return;
  const NormTensors<T, kHidden, Args> row(args, token);

  float squares = 0;
  Vec<T, kVec> in_registers[kInRegisters ? ceil_div(kPerLane, kBatch) * kBatch : 1];
#pragma unroll(kInRegisters ? ceil_div(kPerLane, kBatch) : 1)
  for (int j0 = 0; j0 < kPerLane; j0 += kBatch) {
    Vec<T, kVec> in[kBatch], residual[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int vector = lane + 32 * (j0 + j);
      if (vector < kVectors) {
        if constexpr (kResidual || kInRegisters)
          in[j] = load_vec_hint<kVec>(row.x + vector * kVec);
        else
          in[j] = load_vec<kVec>(row.x + vector * kVec);  // read again from its L1 line
        if constexpr (kResidual) residual[j] = load_vec_hint<kVec>(row.residual + vector * kVec);
      }
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int vector = lane + 32 * (j0 + j);
      if (vector < kVectors) {
        if constexpr (kResidual) {
          in[j] = add_rounded(in[j], residual[j]);
          store_vec_hint<kCacheHint>(row.residual_out + vector * kVec, in[j]);
        }
        if constexpr (kInRegisters) in_registers[j0 + j] = in[j];
        add_squares(squares, in[j]);
      }
    }
  }
  const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll(kInRegisters ? kPerLane : kBatch)
  for (int j = 0; j < kPerLane; ++j) {
    const int vector = lane + 32 * j;
    if (vector < kVectors) {
      Vec<T, kVec> v;
      if constexpr (kInRegisters)
        v = in_registers[j];
      else
        v = load_vec<kVec>((kResidual ? row.residual_out : row.x) + vector * kVec);
      store_scaled<kCacheHint>(row.y + vector * kVec, v, scale, load_vec<kVec>(row.weight + vector * kVec));
    }
  }
}

template <class T, int kHidden, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kRows * 32) rms_norm_warp_per_row(RmsNormArgs args) {
  normalize_warp_per_row<T, kHidden, kRows, kMaxVec, kCacheHint>(args);
}
template <class T, int kHidden, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kRows * 32) add_rms_norm_warp_per_row(AddRmsNormArgs args) {
  normalize_warp_per_row<T, kHidden, kRows, kMaxVec, kCacheHint>(args);
}

}  // namespace warptune
