#pragma once
// Thread block clusters (sm_90): blocks that run together and read each other's shared memory.
#include "kernels/common/async_copy.cuh"

namespace warptune {

/// Barrier over all threads of the cluster; shared memory written before it can be read after it.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The same without saying anything about memory: for a block that must not end while others read from it.
__device__ __forceinline__ void cluster_barrier_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/// The object at `shared` in the shared memory of block `rank` of the cluster: 4, 8 or 16 bytes, aligned.
template <class X>
__device__ __forceinline__ X cluster_load(const X* shared, unsigned rank) {
  static_assert(sizeof(X) == 4 || sizeof(X) == 8 || sizeof(X) == 16);
  union {
    float f[sizeof(X) / 4];
    X x;
  } u = {};
#if __CUDA_ARCH__ >= 900
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(shared_address(shared)), "r"(rank));
  if constexpr (sizeof(X) == 4)
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(u.f[0]) : "r"(address) : "memory");
  else if constexpr (sizeof(X) == 8)
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(u.f[0]), "=f"(u.f[1])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(u.f[0]), "=f"(u.f[1]), "=f"(u.f[2]), "=f"(u.f[3])
                 : "r"(address)
                 : "memory");
#endif
  return u.x;
}

}  // namespace warptune
