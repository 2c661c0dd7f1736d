#pragma once
// CUDA runtime calls, always checked.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>

namespace warptune {

struct CudaError : std::runtime_error {
  CudaError(cudaError_t code, const char* call)
      : std::runtime_error(fmt::format("{}: {}", call, cudaGetErrorString(code))), code(code) {}
  cudaError_t code;
};

inline void cuda_check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) {
    cudaGetLastError();  // clears the error unless it is sticky
    throw CudaError(code, call);
  }
}
#define WARPTUNE_CUDA_CHECK(call) ::warptune::cuda_check((call), #call)

}  // namespace warptune
