#pragma once
// Thread block clusters (sm_90): blocks that run at the same time and read each other's shared memory
// (distributed shared memory). On an older architecture these do not assemble.
#include "kernels/common/barrier.cuh"
#include "kernels/common/vec.cuh"

namespace warptune {

/// Barrier of all threads of the cluster. Shared memory written before it can be read after it.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The same in two steps, with work between them.
__device__ __forceinline__ void cluster_barrier_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_barrier_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The same barrier without memory ordering: keeps a block alive while others read its shared memory.
__device__ __forceinline__ void cluster_barrier_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Arrives at the mbarrier of block `rank` of the cluster that lies where `barrier` lies in this block;
/// releases this thread's writes to the cluster.
__device__ __forceinline__ void mbarrier_arrive_cluster(Mbarrier* barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
/// The same without a fence at cluster scope, which costs 0.4 us per stage of a pipeline: for an
/// empty barrier of multicast stages, where only wgmma has read what TMA overwrites.
__device__ __forceinline__ void mbarrier_arrive_remote(Mbarrier* barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
/// mbarrier_wait() that acquires the writes of the whole cluster.
__device__ __forceinline__ void mbarrier_wait_cluster(Mbarrier* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT_%=: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT_%=;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Loads the object at `shared` from the shared memory of block `rank` of the cluster: 4, 8 or 16 bytes,
/// aligned.
template <class X>
__device__ __forceinline__ X cluster_load(const X* shared, unsigned rank) {
  static_assert(sizeof(X) == 4 || sizeof(X) == 8 || sizeof(X) == 16);
  union {
    float f[sizeof(X) / 4];
    X x;
  } u = {};
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
  return u.x;
}

/// Stores x (1, 2 or 4 floats, aligned) to the shared memory of block `rank` of the cluster, where `shared`
/// lies in this block, asynchronously: the mbarrier of that block where `barrier` lies in this one counts the
/// bytes. PTX manual: "st.async".
template <int N>
__device__ __forceinline__ void cluster_store_async(const Vec<float, N>& x, void* shared, Mbarrier* barrier,
                                                    unsigned rank) {
  static_assert(N == 1 || N == 2 || N == 4);
  unsigned to, counts;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(shared)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(counts)
               : "r"(shared_address(barrier)), "r"(rank));
  if constexpr (N == 1)
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
                 "f"(x[0]), "r"(counts)
                 : "memory");
  else if constexpr (N == 2)
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
        "f"(x[0]), "f"(x[1]), "r"(counts)
        : "memory");
  else
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::
            "r"(to),
        "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(counts)
        : "memory");
}

}  // namespace warptune
