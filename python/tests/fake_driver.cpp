// A libcuda.so.1 without a GPU. It accepts every call, reads what a driver reads, and ends the program at a
// launch that no device could make. It appends a line of JSON per launch to the file
// $WARPTUNE_FAKE_DRIVER_LOG: kernel, grid, block, stream, number of attributes, and the first
// $WARPTUNE_FAKE_DRIVER_BYTES bytes of the args.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fake driver: impossible: %s\n", what);
  std::abort();
}

/// An address that lives as long as the program.
CUfunction function_named(const char* name) {
  static std::set<std::string> names;
  return reinterpret_cast<CUfunction>(const_cast<char*>(names.insert(name).first->c_str()));
}

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult, const char** text) { return *text = "CUDA_ERROR", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "an error", CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = nullptr, CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = 0, CUDA_SUCCESS; }
/// An H100: compute capability 9.0 and 132 SMs.
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 132;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  constexpr size_t kMemory = size_t{1} << 28;
  if (bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) { return std::free(reinterpret_cast<void*>(address)), CUDA_SUCCESS; }
CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t bytes) {
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) { return CUDA_SUCCESS; }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  *module = reinterpret_cast<CUmodule>(1);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = function_named(name);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  return *value = 49152, CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  return *clusters = 66, CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void*,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  require(rank >= 1 && rank <= 5, "the rank of a tensor map");
  for (cuuint32_t i = 0; i < rank; ++i) {
    require(dims[i] >= 1 && dims[i] <= cuuint64_t{1} << 32, "a dim of a tensor map");
    require(box[i] >= 1 && box[i] <= 256 && steps[i] == 1, "a box of a tensor map");
    require(i + 1 == rank || strides[i] <= cuuint64_t{1} << 40, "a stride of a tensor map");
  }
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  require(config->gridDimX >= 1 && config->gridDimX <= 0x7fffffff, "grid x");
  require(config->gridDimY >= 1 && config->gridDimY <= 65535, "grid y");
  require(config->gridDimZ >= 1 && config->gridDimZ <= 65535, "grid z");
  require(config->blockDimX >= 1 && config->blockDimY >= 1 && config->blockDimZ >= 1, "an empty block");
  require(config->blockDimX <= 1024 && config->blockDimY <= 1024 && config->blockDimZ <= 64, "a large block");
  require(config->blockDimX * config->blockDimY * config->blockDimZ <= 1024, "the threads of a block");
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const unsigned cluster = config->attrs[i].value.clusterDim.x;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      require(cluster >= 1 && cluster <= 16 && config->gridDimX % cluster == 0, "a cluster");
  }
  const char* path = std::getenv("WARPTUNE_FAKE_DRIVER_LOG");
  if (!path) return CUDA_SUCCESS;
  const char* bytes_text = std::getenv("WARPTUNE_FAKE_DRIVER_BYTES");
  const int bytes = bytes_text ? std::atoi(bytes_text) : 0;
  std::string args;
  for (int i = 0; i < bytes; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<const unsigned char*>(parameters[0])[i]);
    args += hex;
  }
  std::FILE* log = std::fopen(path, "a");
  std::fprintf(log, "{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"stream\": %zu, ",
               reinterpret_cast<const char*>(function), config->gridDimX, config->gridDimY, config->gridDimZ,
               config->blockDimX, config->blockDimY, config->blockDimZ,
               reinterpret_cast<std::size_t>(config->hStream));
  std::fprintf(log, "\"attributes\": %u, \"args\": \"%s\"}\n", config->numAttrs, args.c_str());
  std::fclose(log);
  return CUDA_SUCCESS;
}
}
