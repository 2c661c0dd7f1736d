#pragma once
// Which blocks of a grid start at once, one to a multiprocessor: those that a programmatic dependent launch
// lets in while the kernel before ends. PTX manual: "%nsmid".

namespace warptune {

/// The numbers of multiprocessors are below this.
__device__ __forceinline__ unsigned multiprocessors() {
  unsigned count;
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  return count;
}

/// Whether all blocks do.
__device__ __forceinline__ bool single_wave() {
  return gridDim.x * gridDim.y * gridDim.z <= multiprocessors();
}
/// Whether this block does.
__device__ __forceinline__ bool in_first_wave() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x < multiprocessors();
}

}  // namespace warptune
