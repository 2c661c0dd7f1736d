// The driver's functions that warptune/launch.h calls, found in libcuda.so.1 when the first of them is
// called: the package is imported and plans are looked up on machines without a driver.
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "warptune/launch.h"

namespace {

void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) throw warptune::Error("libcuda.so.1 cannot be loaded: a launch needs a GPU and its driver");
  if (void* symbol = dlsym(driver, name)) return symbol;
  throw warptune::Error("the driver has no " + std::string(name) + "; it is too old");
}

}  // namespace

// cuda.h defines some names as macros for their newest version: the inner macro gets the name after that.
#define FORWARD(name, parameters, arguments) FORWARD_AS(name, parameters, arguments)
#define FORWARD_AS(name, parameters, arguments)                                            \
  extern "C" CUresult CUDAAPI name parameters {                                            \
    static const auto in_driver = reinterpret_cast<decltype(&name)>(driver_symbol(#name)); \
    return in_driver arguments;                                                            \
  }

FORWARD(cuGetErrorName, (CUresult error, const char** text), (error, text))
FORWARD(cuGetErrorString, (CUresult error, const char** text), (error, text))
FORWARD(cuCtxGetCurrent, (CUcontext * context), (context))
FORWARD(cuCtxGetDevice, (CUdevice * device), (device))
FORWARD(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device),
        (value, attribute, device))
FORWARD(cuMemAlloc, (CUdeviceptr * address, size_t bytes), (address, bytes))
FORWARD(cuMemFree, (CUdeviceptr address), (address))
FORWARD(cuMemsetD8, (CUdeviceptr address, unsigned char value, size_t bytes), (address, value, bytes))
FORWARD(cuStreamSynchronize, (CUstream stream), (stream))
FORWARD(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode))
FORWARD(cuModuleLoadData, (CUmodule * module, const void* image), (module, image))
FORWARD(cuModuleUnload, (CUmodule module), (module))
FORWARD(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name),
        (function, module, name))
FORWARD(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function),
        (value, attribute, function))
FORWARD(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
        (function, attribute, value))
FORWARD(cuOccupancyMaxActiveClusters, (int* clusters, CUfunction function, const CUlaunchConfig* config),
        (clusters, function, config))
FORWARD(cuLaunchKernelEx,
        (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra),
        (config, function, parameters, extra))
FORWARD(cuTensorMapEncodeTiled,
        (CUtensorMap * map, CUtensorMapDataType type, cuuint32_t rank, void* base, const cuuint64_t* dims,
         const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
         CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
         CUtensorMapFloatOOBfill fill),
        (map, type, rank, base, dims, strides, box, steps, interleave, swizzle, promotion, fill))
