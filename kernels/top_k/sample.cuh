#pragma once
// Top-p and min-p sampling of one of k candidates, sorted in descending order, by one warp.
#include "kernels/common/philox.cuh"
#include "kernels/common/sort_key.cuh"
#include "kernels/top_k/args.h"

namespace warptune {

/// Lane l holds candidates l * kPerLane to (l + 1) * kPerLane - 1. All 32 lanes call it, and all receive the
/// id.
template <class Key, int kK, bool kMinP>
__device__ __forceinline__ int sample_sorted(const typename Key::Word* sorted, const TopKArgs& args,
                                             int row) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int kPerLane = ceil_div(kK, 32);
  const int lane = threadIdx.x % 32;
  const float max_logit = Key::value(sorted[0]), scale = 1.0f / args.temperature;
  if (!(args.temperature > 0) || !isfinite(max_logit)) return Key::index(sorted[0]);

  float cumulative[kPerLane];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane * kPerLane + j;
    if (i < kK) sum += expf((Key::value(sorted[i]) - max_logit) * scale);
    cumulative[j] = sum;
  }
  float scan = sum;  // inclusive scan over the lanes
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const float lower = __shfl_up_sync(kAll, scan, offset);
    if (lane >= offset) scan += lower;
  }
  const float total = __shfl_sync(kAll, scan, 31);
  scan = __shfl_up_sync(kAll, scan, 1);
  if (lane > 0) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) cumulative[j] += scan;
  }

  // The last candidate of the smallest prefix whose probability reaches p.
  unsigned last = kK - 1;
#pragma unroll
  for (int j = kPerLane - 1; j >= 0; --j)
    if (lane * kPerLane + j < kK && cumulative[j] >= args.p * total) last = lane * kPerLane + j;
  last = __reduce_min_sync(kAll, last);
  if constexpr (kMinP) {  // in descending order these are a prefix too
    unsigned likely = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane * kPerLane + j;
      if (i < kK && expf((Key::value(sorted[i]) - max_logit) * scale) >= args.min_p) likely = i;
    }
    likely = __reduce_max_sync(kAll, likely);
    last = likely < last ? likely : last;
  }
  float prefix = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j)
    if (lane * kPerLane + j == static_cast<int>(last)) prefix = cumulative[j];
  prefix = __shfl_sync(kAll, prefix, static_cast<int>(last) / kPerLane);

  const float target = philox_uniform(args.rng[0], args.rng[1], static_cast<unsigned>(row)) * prefix;
  unsigned sampled = last;
#pragma unroll
  for (int j = kPerLane - 1; j >= 0; --j)
    if (lane * kPerLane + j < static_cast<int>(last) && cumulative[j] > target) sampled = lane * kPerLane + j;
  sampled = __reduce_min_sync(kAll, sampled);
  return Key::index(sorted[sampled]);
}

}  // namespace warptune
