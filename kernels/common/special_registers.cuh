#pragma once
// Special registers of PTX: the number of SMs, the clock of the GPU.

namespace warptune {

/// An upper bound of the SM ids ("%nsmid").
__device__ __forceinline__ unsigned max_sm_count() {
  unsigned count;
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  return count;
}

/// Nanoseconds of a clock that all SMs share.
__device__ __forceinline__ long long global_timer_ns() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace warptune
