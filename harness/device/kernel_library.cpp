#if WARPTUNE_HAS_CUDA
#include "harness/device/kernel_library.h"

#include <cuda.h>  // types only: driver_entry.h

#include <stdexcept>

#include "harness/device/cuda_check.h"
#include "harness/device/driver_entry.h"

namespace warptune {

#if CUDART_VERSION >= 12080
KernelLibrary::KernelLibrary(const std::string& cubin) {
  cudaLibrary_t library = nullptr;
  WARPTUNE_CUDA_CHECK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  handle_ = library;
}

KernelLibrary::~KernelLibrary() {
  if (handle_) cudaLibraryUnload(static_cast<cudaLibrary_t>(handle_));
}

const void* KernelLibrary::kernel(const std::string& entry) const {
  cudaKernel_t kernel = nullptr;
  WARPTUNE_CUDA_CHECK(cudaLibraryGetKernel(&kernel, static_cast<cudaLibrary_t>(handle_), entry.c_str()));
  return kernel;
}
#else
// The runtime has libraries from 12.8 on, the driver from 12.0 on. A CUkernel is a cudaKernel_t.
namespace {

template <class F>
F* driver(const char* name) {
  if (void* function = driver_entry(name)) return reinterpret_cast<F*>(function);
  throw std::runtime_error(fmt::format("the CUDA driver has no {}; 525 or newer is needed", name));
}

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(fmt::format("{}: driver error {}", call, static_cast<int>(result)));
}

}  // namespace

KernelLibrary::KernelLibrary(const std::string& cubin) {
  WARPTUNE_CUDA_CHECK(cudaFree(nullptr));  // the driver's functions need the context, which the runtime makes
  static const auto load = driver<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
  CUlibrary library = nullptr;
  check(load(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
  handle_ = library;
}

KernelLibrary::~KernelLibrary() {
  static const auto unload = driver<decltype(cuLibraryUnload)>("cuLibraryUnload");
  if (handle_) unload(static_cast<CUlibrary>(handle_));
}

const void* KernelLibrary::kernel(const std::string& entry) const {
  static const auto get = driver<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel");
  CUkernel kernel = nullptr;
  check(get(&kernel, static_cast<CUlibrary>(handle_), entry.c_str()), "cuLibraryGetKernel");
  return kernel;
}
#endif

}  // namespace warptune
#endif
