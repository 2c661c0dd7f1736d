// A libcuda.so.1 without a GPU: it accepts every call, and appends a line of JSON per launch to the file
// $WARPTUNE_FAKE_DRIVER_LOG: kernel, grid, block, stream, number of attributes, and the first
// $WARPTUNE_FAKE_DRIVER_BYTES bytes of the args.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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
  *function = reinterpret_cast<CUfunction>(strdup(name));
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  return *value = 49152, CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  return *clusters = 66, CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
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
