#if WARPTUNE_HAS_CUDA
#include "harness/device/loaded_kernel.h"

#include <cuda.h>  // types only: driver_entry() finds the functions

#include "harness/core/error.h"
#include "harness/device/cuda_check.h"

namespace warptune {

#if CUDART_VERSION >= 12080
LoadedKernel::LoadedKernel(const std::string& cubin, const std::string& entry) {
  cudaLibrary_t library = nullptr;
  WARPTUNE_CUDA_CHECK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  library_ = library;
  cudaKernel_t kernel = nullptr;
  WARPTUNE_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, entry.c_str()));
  kernel_ = kernel;
}

LoadedKernel::~LoadedKernel() {
  if (library_) cudaLibraryUnload(static_cast<cudaLibrary_t>(library_));
}

void LoadedKernel::allow_shared_bytes(int bytes) const {
  WARPTUNE_CUDA_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

void LoadedKernel::allow_large_clusters() const {
  WARPTUNE_CUDA_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

void LoadedKernel::prefer_shared_carveout(int percent) const {
  WARPTUNE_CUDA_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributePreferredSharedMemoryCarveout, percent));
}

int LoadedKernel::max_active_clusters(const cudaLaunchConfig_t& config) const {
  int clusters = 0;
  WARPTUNE_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel_, &config));
  return clusters;
}

void* LoadedKernel::constant(const std::string& symbol) const {
  void* address = nullptr;
  std::size_t bytes = 0;
  WARPTUNE_CUDA_CHECK(
      cudaLibraryGetGlobal(&address, &bytes, static_cast<cudaLibrary_t>(library_), symbol.c_str()));
  return address;
}

void LoadedKernel::launch(const cudaLaunchConfig_t& config, void** arguments) const {
  WARPTUNE_CUDA_CHECK(cudaLaunchKernelExC(&config, kernel_, arguments));
}
#else
namespace {

template <class F>
F* driver(const char* name) {
  if (void* function = driver_entry(name)) return reinterpret_cast<F*>(function);
  throw TextError("the CUDA driver has no {}; 525 or newer is needed", name);
}

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw TextError("{}: driver error {}", call, static_cast<int>(result));
}

void set_attribute(void* kernel, CUfunction_attribute attribute, int value) {
  static const auto set = driver<decltype(cuFuncSetAttribute)>("cuFuncSetAttribute");
  check(set(static_cast<CUfunction>(kernel), attribute, value), "cuFuncSetAttribute");
}

/// The configuration as the driver takes it. The attributes of the runtime are its own under other names.
CUlaunchConfig driver_config(const cudaLaunchConfig_t& config) {
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  CUlaunchConfig same{};
  same.gridDimX = config.gridDim.x;
  same.gridDimY = config.gridDim.y;
  same.gridDimZ = config.gridDim.z;
  same.blockDimX = config.blockDim.x;
  same.blockDimY = config.blockDim.y;
  same.blockDimZ = config.blockDim.z;
  same.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  same.hStream = config.stream;
  same.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  same.numAttrs = config.numAttrs;
  return same;
}

}  // namespace

LoadedKernel::LoadedKernel(const std::string& cubin, const std::string& entry) {
  WARPTUNE_CUDA_CHECK(cudaFree(nullptr));  // the driver's functions need the context, which the runtime makes
  static const auto load = driver<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
  static const auto find = driver<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel");
  static const auto get = driver<decltype(cuKernelGetFunction)>("cuKernelGetFunction");
  CUlibrary library = nullptr;
  check(load(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
  library_ = library;
  CUkernel kernel = nullptr;
  check(find(&kernel, library, entry.c_str()), "cuLibraryGetKernel");
  CUfunction function = nullptr;
  check(get(&function, kernel), "cuKernelGetFunction");
  kernel_ = function;
}

LoadedKernel::~LoadedKernel() {
  static const auto unload = driver<decltype(cuLibraryUnload)>("cuLibraryUnload");
  if (library_) unload(static_cast<CUlibrary>(library_));
}

void LoadedKernel::allow_shared_bytes(int bytes) const {
  set_attribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

void LoadedKernel::allow_large_clusters() const {
  set_attribute(kernel_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
}

void LoadedKernel::prefer_shared_carveout(int percent) const {
  set_attribute(kernel_, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent);
}

int LoadedKernel::max_active_clusters(const cudaLaunchConfig_t& config) const {
  static const auto query = driver<decltype(cuOccupancyMaxActiveClusters)>("cuOccupancyMaxActiveClusters");
  int clusters = 0;
  const CUlaunchConfig same = driver_config(config);
  check(query(&clusters, static_cast<CUfunction>(kernel_), &same), "cuOccupancyMaxActiveClusters");
  return clusters;
}

void* LoadedKernel::constant(const std::string& symbol) const {
  static const auto get = driver<decltype(cuLibraryGetGlobal)>("cuLibraryGetGlobal");
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  check(get(&address, &bytes, static_cast<CUlibrary>(library_), symbol.c_str()), "cuLibraryGetGlobal");
  return reinterpret_cast<void*>(address);
}

void LoadedKernel::launch(const cudaLaunchConfig_t& config, void** arguments) const {
  static const auto launch = driver<decltype(cuLaunchKernelEx)>("cuLaunchKernelEx");
  const CUlaunchConfig same = driver_config(config);
  check(launch(&same, static_cast<CUfunction>(kernel_), arguments, nullptr), "cuLaunchKernelEx");
}
#endif

}  // namespace warptune
#endif
