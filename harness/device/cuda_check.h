#pragma once
// CUDA runtime calls, always checked.
#include <cuda_runtime_api.h>

#include "harness/core/error.h"

namespace warptune {

struct CudaError : TextError {
  CudaError(cudaError_t code, const char* call)
      : TextError("{}: {}", call, cudaGetErrorString(code)), code(code) {}
  cudaError_t code;
};

inline void cuda_check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    cudaGetLastError();  // clears the error unless it is sticky
    throw CudaError(code, call);
  }
}
#define WARPTUNE_CUDA_CHECK(call) ::warptune::cuda_check((call), #call)

/// The entry point of a function of the driver, of CUDA 12.0, or nullptr where the driver is older. The
/// program is not linked with the driver, so that it starts without one.
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
