#pragma once
// Draws one of k candidates sorted from the largest down, by one warp.
#include "kernels/common/philox.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/top_k/args.h"

namespace warptune {

/// Lane l holds candidates l * kPer ...; all 32 lanes must call it and all receive the id.
template <class Key, int kK>
__device__ __forceinline__ int sample_sorted(const typename Key::Word* sorted, const TopKArgs& args,
                                             int row) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int kPer = ceil_div(kK, 32);
  const int lane = threadIdx.x % 32;
  if (!(args.temperature > 0)) return Key::index(sorted[0]);

  const float largest = Key::value(sorted[0]), scale = 1.0f / args.temperature;
  float cumulative[kPer];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int i = lane * kPer + j;
    if (i < kK) sum += expf((Key::value(sorted[i]) - largest) * scale);
    cumulative[j] = sum;
  }
  float before = sum;  // becomes the sum over this and all lower lanes
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float lower = __shfl_up_sync(kAll, before, offset);
    if (lane >= offset) before += lower;
  }
  const float total = __shfl_sync(kAll, before, 31);
  before = __shfl_up_sync(kAll, before, 1);
  if (lane > 0) {
#pragma unroll
    for (int j = 0; j < kPer; ++j) cumulative[j] += before;
  }

  // The smallest prefix whose probability reaches p: its last candidate.
  unsigned last = kK - 1;
#pragma unroll
  for (int j = kPer - 1; j >= 0; --j)
    if (lane * kPer + j < kK && cumulative[j] >= args.p * total) last = lane * kPer + j;
  last = __reduce_min_sync(kAll, last);
  float prefix = 0;
#pragma unroll
  for (int j = 0; j < kPer; ++j)
    if (lane * kPer + j == static_cast<int>(last)) prefix = cumulative[j];
  prefix = __shfl_sync(kAll, prefix, static_cast<int>(last) / kPer);

  const float target = philox_uniform(args.rng[0], args.rng[1], static_cast<unsigned>(row)) * prefix;
  unsigned taken = last;
#pragma unroll
  for (int j = kPer - 1; j >= 0; --j)
    if (lane * kPer + j < static_cast<int>(last) && cumulative[j] > target) taken = lane * kPer + j;
  taken = __reduce_min_sync(kAll, taken);
  return Key::index(sorted[taken]);
}

}  // namespace warptune
