#pragma once
// Programmatic dependent launch (sm_90): a kernel starts while its predecessor still runs. Only data that no
// unfinished kernel can write may be loaded before pdl_wait(): weights and, in decode attention, lengths,
// block tables and KV rows of earlier steps (kv_pipeline.cuh). All else comes after it. Every thread of a
// kernel launched with the pdl attribute must reach pdl_wait(). pdl_wait() returns at once in a launch
// without the attribute; both are no-ops before sm_90.
#include "kernels/common/special_registers.cuh"

namespace warptune {

/// Whether the architecture has it: a kernel may start before its inputs are there.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kHasPdl = true;
#else
inline constexpr bool kHasPdl = false;
#endif

/// griddepcontrol.wait: waits until all kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// griddepcontrol.launch_dependents: the next kernel of the stream starts once every block has called this or
/// ended. Called before pdl_wait(), it lets a chain of small kernels, and the weight loads of the GEMV after
/// them, start while a GEMV before them still runs. Each kernel still waits for its predecessor, so all
/// earlier kernels have ended too.
__device__ __forceinline__ void pdl_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The first wave: the blocks that a programmatic dependent launch starts, one per SM, while the predecessor
// ends.

/// Whether the grid has at most one block per SM.
__device__ __forceinline__ bool is_single_wave() {
  return gridDim.x * gridDim.y * gridDim.z <= max_sm_count();
}
/// Whether this block belongs to the first wave, at one block per SM.
__device__ __forceinline__ bool in_first_wave() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x < max_sm_count();
}

}  // namespace warptune
