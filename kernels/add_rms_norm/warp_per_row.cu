// Idea: one warp per token, several tokens per block: no barrier, only shuffles. A sum of up to 256 bytes per
// lane stays in registers; a longer one is read back from residual_out (each lane what it wrote itself).
#include "kernels/add_rms_norm/add.cuh"
#include "kernels/add_rms_norm/args.h"
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kRows, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kRows * 32) add_rms_norm_warp_per_row(AddRmsNormArgs args) {
  constexpr int kVec = vec_width(kVecWanted, kHidden);
  constexpr int kPieces = kHidden / kVec;
  constexpr int kPerLane = ceil_div(kPieces, 32);
  constexpr bool kKept = kPerLane * kVec * static_cast<int>(sizeof(T)) <= 256;
  constexpr int kBatch = 4;  // pieces of x and of residual in flight at a time
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
  Vec<T, kVec> kept[kKept ? ceil_div(kPerLane, kBatch) * kBatch : 1];
#pragma unroll(kKept ? ceil_div(kPerLane, kBatch) : 1)
  for (int j0 = 0; j0 < kPerLane; j0 += kBatch) {
    Vec<T, kVec> a[kBatch], b[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int piece = lane + 32 * (j0 + j);
      if (piece < kPieces) {
        a[j] = load_vec_hint<kVec>(x + piece * kVec);
        b[j] = load_vec_hint<kVec>(residual + piece * kVec);
      }
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int piece = lane + 32 * (j0 + j);
      if (piece < kPieces) {
        const auto sum = add_rounded(a[j], b[j]);
        store_vec_hint<kStore>(out + piece * kVec, sum);
        if constexpr (kKept) kept[j0 + j] = sum;
        add_squares(squares, sum);
      }
    }
  }
  const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll(kKept ? kPerLane : kBatch)
  for (int j = 0; j < kPerLane; ++j) {
    const int piece = lane + 32 * j;
    if (piece < kPieces) {
      Vec<T, kVec> sum;
      if constexpr (kKept)
        sum = kept[j];
      else
        sum = load_vec<kVec>(out + piece * kVec);
      store_scaled<kStore>(y + piece * kVec, sum, scale, load_vec<kVec>(weight + piece * kVec));
    }
  }
}

}  // namespace warptune
