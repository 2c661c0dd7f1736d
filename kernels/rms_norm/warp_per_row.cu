// Idea: one warp per token, several tokens per block: no barrier, only shuffles. The row is read in wide
// pieces and read again (from L1 or L2) for the scaling, so that registers do not limit its length.
#include "common/pdl.cuh"
#include "common/reduce.cuh"
#include "common/vec.cuh"
#include "rms_norm/args.h"

namespace warptune {

template <class T, int kHidden, int kRows, int kVecWanted>
__global__ void __launch_bounds__(kRows * 32) rms_norm_warp_per_row(RmsNormArgs args) {
  constexpr int kVec = kHidden % kVecWanted == 0 ? kVecWanted : 1;
  constexpr int kChunks = kHidden / kVec;
  pdl_wait();
  pdl_launch_next();
  const int lane = threadIdx.x % 32;
  const long long token = static_cast<long long>(blockIdx.x) * kRows + threadIdx.x / 32;
  if (token >= args.tokens) return;
  const T* x = static_cast<const T*>(args.x) + token * kHidden;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + token * kHidden;

  float sum = 0;
#pragma unroll 4
  for (int chunk = lane; chunk < kChunks; chunk += 32) {
    const auto f = to_float(load_vec<kVec>(x + chunk * kVec));
#pragma unroll
    for (int i = 0; i < kVec; ++i) sum += f[i] * f[i];
  }
  const float scale = rsqrtf(warp_reduce<Sum>(sum) / kHidden + args.eps);
#pragma unroll 4
  for (int chunk = lane; chunk < kChunks; chunk += 32) {
    auto f = to_float(load_vec<kVec>(x + chunk * kVec));
    const auto g = to_float(load_vec<kVec>(weight + chunk * kVec));
#pragma unroll
    for (int i = 0; i < kVec; ++i) f[i] *= scale * g[i];
    store_vec<kVec>(y + chunk * kVec, from_float<T>(f));
  }
}

}  // namespace warptune
