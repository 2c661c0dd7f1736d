// Idea: one warp per token, several tokens per block: no barrier, only shuffles. A row of up to 256 bytes per
// lane stays in registers; a longer one is read again (from L1 or L2) for the scaling.
#include "kernels/common/pdl.cuh"
#include "kernels/common/vec_width.h"
#include "kernels/rms_norm/args.h"
#include "kernels/rms_norm/normalize.cuh"

namespace warptune {

template <class T, int kHidden, int kRows, int kVecWanted, int kStore>
__global__ void __launch_bounds__(kRows * 32) rms_norm_warp_per_row(RmsNormArgs args) {
  constexpr int kVec = vec_width(kVecWanted, kHidden);
  constexpr int kPieces = kHidden / kVec;
  constexpr int kPerLane = ceil_div(kPieces, 32);
  constexpr bool kKept = kPerLane * kVec * static_cast<int>(sizeof(T)) <= 256;
  pdl_launch_dependents();
  pdl_wait();
  const int lane = threadIdx.x % 32;
  const long long token = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (token >= args.tokens) return;
  const T* x = static_cast<const T*>(args.x) + token * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + token * kHidden;

  float squares = 0;
  const auto write = [&](const Vec<T, kVec>& v, int piece, float scale) {
    store_scaled<kStore>(y + piece * kVec, v, scale, load_vec<kVec>(weight + piece * kVec));
  };

  if constexpr (kKept) {
    Vec<T, kVec> in[kPerLane];
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kPieces) in[j] = load_vec_hint<kVec>(x + (lane + 32 * j) * kVec);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kPieces) add_squares(squares, in[j]);
    const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j)
      if (lane + 32 * j < kPieces) write(in[j], lane + 32 * j, scale);
  } else {
#pragma unroll 8
    for (int piece = lane; piece < kPieces; piece += 32)
      add_squares(squares, load_vec<kVec>(x + piece * kVec));
    const float scale = rsqrtf(warp_reduce<Sum>(squares) / kHidden + args.eps);
#pragma unroll 8
    for (int piece = lane; piece < kPieces; piece += 32)
      write(load_vec<kVec>(x + piece * kVec), piece, scale);
  }
}

}  // namespace warptune
