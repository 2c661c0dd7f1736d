#pragma once
// Bulk asynchronous copies from global to shared memory (sm_90): contiguous bytes (cp.async.bulk) and TMA
// tiles of a tensor map (cp.async.bulk.tensor). One thread issues a copy; an mbarrier counts its bytes. And
// stores of TMA tiles, which their thread waits for. PTX manual: "cp.async.bulk". On an older architecture
// these do not assemble.
#include "kernels/common/barrier.cuh"
#include "kernels/common/numeric.cuh"

namespace warptune {

/// An L2 policy for data that is read once: its lines are evicted first.
__device__ __forceinline__ unsigned long long l2_evict_first_policy() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Copies `bytes` (a multiple of 16; both addresses 16-byte aligned) with L2::evict_first.
__device__ __forceinline__ void bulk_copy_evict_first(void* shared, const void* global, unsigned bytes,
                                                      Mbarrier* barrier) {
  const unsigned long long policy = l2_evict_first_policy();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

/// Prefetches the line of `global` into the L2.
__device__ __forceinline__ void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global) : "memory");
}
/// Prefetches `bytes` at `global` (multiples of 16) into the L2; it takes no shared memory. One thread.
__device__ __forceinline__ void bulk_prefetch_l2(const void* global, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
}
/// Prefetches about kMib MiB of a matrix [rows, row_bytes] into the L2. The rows lie at equal distances, so
/// that all blocks of the next kernel find the same share there. One thread of each block.
template <int kMib>
__device__ __forceinline__ void bulk_prefetch_rows_l2(const void* matrix, int rows, int row_bytes) {
  const long long bytes = static_cast<long long>(rows) * row_bytes;
  const int distance = max_of(1, static_cast<int>(bytes >> 20) / kMib);
  for (int row = blockIdx.x * distance; row < rows; row += gridDim.x * distance)
    bulk_prefetch_l2(static_cast<const char*>(matrix) + static_cast<long long>(row) * row_bytes, row_bytes);
}

/// A CUtensorMap, opaque: what the harness passes for each of Stage::tensor_maps as `const __grid_constant__
/// TensorMap`.
struct alignas(64) TensorMap {
  unsigned char bits[128];
};

/// Prefetches the descriptor itself, some time before its first use.
__device__ __forceinline__ void tma_prefetch_descriptor(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Loads the tile whose first element is (x, y, z), x the innermost. Elements outside of the tensor are
/// zeros. The barrier counts the bytes of the whole tile. One thread.
__device__ __forceinline__ void tma_load_3d(void* shared, const TensorMap& map, int x, int y, int z,
                                            Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
}
/// The same with an L2 policy.
__device__ __forceinline__ void tma_load_3d(void* shared, const TensorMap& map, int x, int y, int z,
                                            Mbarrier* barrier, unsigned long long l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "l"(l2_policy)
      : "memory");
}

/// Loads the tile of a 2D tensor whose first element is (x, y), as tma_load_3d().
__device__ __forceinline__ void tma_load_2d(void* shared, const TensorMap& map, int x, int y,
                                            Mbarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}
/// The same with an L2 policy.
__device__ __forceinline__ void tma_load_2d(void* shared, const TensorMap& map, int x, int y,
                                            Mbarrier* barrier, unsigned long long l2_policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)), "l"(l2_policy)
      : "memory");
}
/// Multicast: writes the tile to the shared memory of each block of the cluster whose bit of `blocks` is set,
/// where `shared` lies in this block; the barrier of each such block, where `barrier` lies in this one,
/// counts the bytes.
__device__ __forceinline__ void tma_load_2d_multicast(void* shared, const TensorMap& map, int x, int y,
                                                      Mbarrier* barrier, unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void tma_load_3d_multicast(void* shared, const TensorMap& map, int x, int y, int z,
                                                      Mbarrier* barrier, unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}

/// Stores the tile of a 2D tensor whose first element is (x, y), without what lies outside of the tensor.
/// Writes to `shared` come before it by fence_proxy_async() and a barrier. One thread, which then commits.
__device__ __forceinline__ void tma_store_2d(const TensorMap& map, int x, int y, const void* shared) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(x), "r"(y), "r"(shared_address(shared))
               : "memory");
}
__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until all committed stores of this thread have read their shared memory, which may be overwritten.
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until all committed stores of this thread have ended.
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace warptune
