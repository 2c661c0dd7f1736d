#pragma once
// Barriers of the first kThreads threads of a block, be these all of them or not. A block has one such
// number; its other threads meet nobody after the first __syncthreads(). PTX manual: "bar".

namespace warptune {

template <int kThreads>
__device__ __forceinline__ void sync_first() {
  asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
}

/// The same; whether any of them said so.
template <int kThreads>
__device__ __forceinline__ bool any_of_first(bool here) {
  int any;
  asm volatile(
      "{\n"
      ".reg .pred in, out;\n"
      "setp.ne.s32 in, %1, 0;\n"
      "bar.red.or.pred out, 0, %2, in;\n"
      "selp.s32 %0, 1, 0, out;\n"
      "}\n"
      : "=r"(any)
      : "r"(static_cast<int>(here)), "n"(kThreads)
      : "memory");
  return any != 0;
}

}  // namespace warptune
