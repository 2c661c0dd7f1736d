#pragma once
// cp.async (sm_80): asynchronous copies of 16, 8 or 4 bytes from global to shared memory that bypass the
// registers. Copies are committed in groups, and a thread waits for its own groups.

namespace warptune {

/// The 32-bit address of `p` in the shared window, as PTX takes it.
__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// Copies 16 bytes. Where `valid` is false it writes zeros and reads nothing.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid = true) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(bytes)
               : "memory");
}

/// The same with an L2 policy (l2_evict_first_policy()).
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, unsigned long long policy,
                                            bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "l"(policy)
      : "memory");
}

/// Copies 4 bytes.
__device__ __forceinline__ void cp_async_4(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global)
               : "memory");
}

/// Writes kBytes, 4 or 8: copies the first `bytes` and writes zeros after them.
template <int kBytes>
__device__ __forceinline__ void cp_async_first_bytes(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global),
               "n"(kBytes), "r"(bytes)
               : "memory");
}
/// Copies kBytes, 4 or 8. Where `valid` is false it writes zeros and reads nothing.
template <int kBytes>
__device__ __forceinline__ void cp_async_narrow(void* shared, const void* global, bool valid) {
  cp_async_first_bytes<kBytes>(shared, global, valid ? kBytes : 0);
}

/// Ends a group: the copies that this thread has issued since the last one.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kPending of this thread's groups are in flight. Other threads see the data after a
/// barrier.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace warptune
