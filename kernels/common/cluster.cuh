#pragma once
// Thread block clusters (sm_90): blocks that run together and read each other's shared memory.
#include "common/async_copy.cuh"
#include "common/vec.cuh"

namespace warptune {

/// Barrier over all threads of the cluster; shared memory written before it can be read after it.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The float at `shared` in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ float cluster_load(const float* shared, unsigned rank) {
  float x = 0;
#if __CUDA_ARCH__ >= 900
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(shared)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
#endif
  return x;
}

/// The same for four floats, 16-byte aligned.
__device__ __forceinline__ Vec<float, 4> cluster_load4(const float* shared, unsigned rank) {
  Vec<float, 4> x{};
#if __CUDA_ARCH__ >= 900
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(shared)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(address)
               : "memory");
#endif
  return x;
}

}  // namespace warptune
