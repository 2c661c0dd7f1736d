#pragma once
// Memory asked for ahead of the copies that will take it: it comes into the L2, for which shared memory needs
// no room (sm_90). PTX manual: "cp.async.bulk.prefetch.L2". Compiles to nothing before sm_90.

namespace warptune {

/// Asks for `bytes` at `global` (multiples of 16). One thread.
__device__ __forceinline__ void bulk_prefetch(const void* global, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

}  // namespace warptune
