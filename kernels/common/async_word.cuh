#pragma once
// cp.async (sm_80) of one 4-byte word; committed and waited for as the pieces of async_copy.cuh.
#include "kernels/common/async_copy.cuh"

namespace warptune {

__device__ __forceinline__ void copy_async4(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global)
               : "memory");
}

}  // namespace warptune
