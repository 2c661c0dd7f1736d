#pragma once
// Bulk copies from global to shared memory (sm_90): one thread asks for kilobytes, an mbarrier in shared
// memory tells when they have come. PTX manual: "cp.async.bulk", "mbarrier". Compiles to nothing before
// sm_90.
#include "kernels/common/async_copy.cuh"

namespace warptune {

using BulkBarrier = unsigned long long;

/// One thread initialises; then bulk_barriers_ready() and a barrier before others use it.
__device__ __forceinline__ void bulk_barrier_init(BulkBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
#endif
}
__device__ __forceinline__ void bulk_barriers_ready() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// The barrier's next phase completes when `bytes` have been copied. One thread.
__device__ __forceinline__ void bulk_expect(BulkBarrier* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

/// Copies `bytes` (a multiple of 16; both addresses 16-byte aligned), read once: first to leave the L2.
__device__ __forceinline__ void bulk_copy_once(void* shared, const void* global, unsigned bytes,
                                               BulkBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

/// Waits for the end of the phase of that parity (0 for the first). All threads that will read.
__device__ __forceinline__ void bulk_wait(BulkBarrier* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

}  // namespace warptune
