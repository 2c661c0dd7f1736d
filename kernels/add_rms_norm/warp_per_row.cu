// Residual add + RMSNorm with one warp per token: reductions by shuffles only, no barrier.
// Grid: kRows warps per block, one token each. Up to 256 bytes of the sum per lane stay in registers; a
//   longer sum is read back from residual_out, by the lane that wrote it.
// Loads: kBatch vectors of x and of residual in flight per lane.
#include "kernels/add_rms_norm/add.cuh"
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kRows, int kMaxVec, int kCacheHint>
__global__ void __launch_bounds__(kRows * 32) add_rms_norm_warp_per_row(AddRmsNormArgs args) {
  constexpr int kVec = vec_width(kMaxVec, kHidden);
  constexpr int kVectors = kHidden / kVec;
  constexpr int kPerLane = ceil_div(kVectors, 32);
  constexpr bool kInRegisters = kPerLane * kVec * static_cast<int>(sizeof(T)) <= 256;
  constexpr int kBatch = 4;
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32;
  const long long token = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (token >= args.tokens) return;
  const T* x = static_cast<const T*>(args.x) + token * kHidden;
  const T* residual = static_cast<const T*>(args.residual) + token * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* out = static_cast<T*>(args.residual_out) + token * kHidden;
  T* y = static_cast<T*>(args.y) + token * kHidden;

  float squares = 0;
  Vec<T, kVec> in_registers[kInRegisters ? ceil_div(kPerLane, kBatch) * kBatch : 1];
#pragma unroll(kInRegisters ? ceil_div(kPerLane, kBatch) : 1)
  for (int j0 = 0; j0 < kPerLane; j0 += kBatch) {
    Vec<T, kVec> a[kBatch], b[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int vector = lane + 32 * (j0 + j);
      if (vector < kVectors) {
        a[j] = load_vec_hint<kVec>(x + vector * kVec);
        b[j] = load_vec_hint<kVec>(residual + vector * kVec);
      }
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int vector = lane + 32 * (j0 + j);
      if (vector < kVectors) {
        const auto sum = add_rounded(a[j], b[j]);
        store_vec_hint<kCacheHint>(out + vector * kVec, sum);
        if constexpr (kInRegisters) in_registers[j0 + j] = sum;
        add_squares(squares, sum);
      }
    }
  }
  const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll(kInRegisters ? kPerLane : kBatch)
  for (int j = 0; j < kPerLane; ++j) {
    const int vector = lane + 32 * j;
    if (vector < kVectors) {
      Vec<T, kVec> sum;
      if constexpr (kInRegisters)
        sum = in_registers[j];
      else
        sum = load_vec<kVec>(out + vector * kVec);
      store_scaled<kCacheHint>(y + vector * kVec, sum, scale, load_vec<kVec>(weight + vector * kVec));
    }
  }
}

}  // namespace warptune
