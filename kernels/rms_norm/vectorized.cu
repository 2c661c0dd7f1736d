// Idea: one block per token; the row is read once with wide loads and kept in registers between the sum of
// squares and the scaling, so that traffic is the floor: x once, y once. Rows whose length is no multiple of
// kVec fall back to single elements (unaligned rows).
#include "common/pdl.cuh"
#include "common/reduce.cuh"
#include "common/vec.cuh"
#include "rms_norm/args.h"

namespace warptune {

template <class T, int kHidden, int kBlock, int kVecWanted>
__global__ void __launch_bounds__(kBlock) rms_norm_vectorized(RmsNormArgs args) {
  constexpr int kVec = kHidden % kVecWanted == 0 ? kVecWanted : 1;
  constexpr int kChunks = kHidden / kVec;
  constexpr int kPerThread = ceil_div(kChunks, kBlock);
  const long long row = static_cast<long long>(blockIdx.x) * kHidden;
  const T* x = static_cast<const T*>(args.x) + row;
  const T* weight = static_cast<const T*>(args.weight);
  T* y = static_cast<T*>(args.y) + row;

  Vec<T, kVec> w[kPerThread];  // does not depend on the kernel before
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int chunk = threadIdx.x + j * kBlock;
    if (chunk < kChunks) w[j] = load_vec<kVec>(weight + chunk * kVec);
  }
  pdl_wait();
  pdl_launch_next();

  Vec<T, kVec> in[kPerThread];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int chunk = threadIdx.x + j * kBlock;
    if (chunk < kChunks) in[j] = load_vec<kVec>(x + chunk * kVec);
  }
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int chunk = threadIdx.x + j * kBlock;
    if (chunk < kChunks) {
      const auto f = to_float(in[j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) sum += f[i] * f[i];
    }
  }
  const float scale = rsqrtf(block_reduce<Sum, kBlock>(sum) / kHidden + args.eps);
#pragma unroll
  for (int j = 0; j < kPerThread; ++j) {
    const int chunk = threadIdx.x + j * kBlock;
    if (chunk < kChunks) {
      auto f = to_float(in[j]);
      const auto g = to_float(w[j]);
#pragma unroll
      for (int i = 0; i < kVec; ++i) f[i] *= scale * g[i];
      store_vec<kVec>(y + chunk * kVec, from_float<T>(f));
    }
  }
}

}  // namespace warptune
