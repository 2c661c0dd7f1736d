#pragma once
// Programmatic dependent launch (sm_90): a kernel may start while its predecessor ends. Whatever does not
// depend on the predecessor (weights) may be loaded before pdl_wait(); everything else only after it. Every
// thread of a kernel launched with the pdl attribute must reach pdl_wait(). No-ops before sm_90.

namespace warptune {

/// Waits until all kernels before this one have ended and their writes are visible.
__device__ __forceinline__ void pdl_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel of the stream start once every block has called this or ended. Called before
/// pdl_wait(), it lets a chain of small kernels, and the weights' copies of the product behind them, start
/// while a product before them still runs: each still waits for the one before it, so all before that have
/// ended too.
__device__ __forceinline__ void pdl_launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace warptune
