#pragma once
// Functions of the CUDA driver, looked up at run time: the program is not linked with the driver, so that it
// starts without one.
#include <cuda_runtime_api.h>

#include "harness/device/cuda_check.h"

namespace warptune {

/// The entry point of a function of CUDA 12.0, or nullptr where the driver is older than the function.
inline void* driver_entry(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  WARPTUNE_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
#else
  WARPTUNE_CUDA_CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
  return found == cudaDriverEntryPointSuccess ? function : nullptr;
}

}  // namespace warptune
