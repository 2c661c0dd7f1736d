#pragma once
// Copies of boxes of a tensor to shared memory (sm_90, TMA), as its tensor map says, and barriers for rings
// of them: one that fills, many that read. PTX manual: "cp.async.bulk.tensor", "mbarrier", "setmaxnreg".
#include "kernels/common/bulk_copy.cuh"

namespace warptune {

/// What the harness passes for each of Stage::tensor_maps, as `const __grid_constant__ TensorMap`; opaque.
struct alignas(64) TensorMap {
  unsigned char bits[128];
};

/// Fetches the map itself, some time before its first use.
__device__ __forceinline__ void tensor_map_prefetch(const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

/// Copies the box whose first element is (x, y, z), x the innermost; elements outside of the tensor come as
/// zeros. The bytes of the whole box count for the barrier. One thread.
__device__ __forceinline__ void tensor_copy(void* shared, const TensorMap& map, int x, int y, int z,
                                            BulkBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
#endif
}

/// The same for what is read once: first to leave the L2.
__device__ __forceinline__ void tensor_copy_once(void* shared, const TensorMap& map, int x, int y, int z,
                                                 BulkBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

/// As bulk_barrier_init(), for a phase of `arrivals`.
__device__ __forceinline__ void barrier_init(BulkBarrier* barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
#endif
}
__device__ __forceinline__ void barrier_arrive(BulkBarrier* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}

/// A barrier among `threads` of the block, by its number (1 to 15; 0 is __syncthreads).
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
/// Counts for a named barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// Moves registers between the warpgroups of a block: all warps of a warpgroup call one of them.
template <int kRegisters>
__device__ __forceinline__ void give_registers_back() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace warptune
