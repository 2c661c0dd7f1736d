#pragma once
// Which of several blocks comes last, and sees what the others wrote before they came: one thread of each
// releases and acquires for its block, once. (A fence of every thread takes 0.6 us more.) PTX manual: "atom",
// "Memory Consistency Model".
#include "kernels/common/first_threads.cuh"

namespace warptune {

/// Adds 1; whoever sees the sum sees what came before, and so does who meets it at a barrier. The value
/// before.
__device__ __forceinline__ unsigned arrive(unsigned* counter) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/// True in the first kBlock threads of the block that is the last of `blocks` to come here. Leaves the
/// counter at zero.
template <int kBlock>
__device__ __forceinline__ bool last_to_arrive(unsigned* arrivals, int blocks) {
  sync_first<kBlock>();
  bool last = false;
  if (threadIdx.x == 0) {
    last = arrive(arrivals) == static_cast<unsigned>(blocks - 1);
    if (last) *arrivals = 0;
  }
  return any_of_first<kBlock>(last);
}

}  // namespace warptune
