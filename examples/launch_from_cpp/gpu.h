// What the examples share: a context and a stream, a CUDA graph, the error of a result, and the exit codes.
#pragma once
#include <cuda.h>
#include <warptune/launch.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

#include "bf16.h"

/// ||y - expected|| / ||expected||
inline double relative_error(const std::vector<std::uint16_t>& y, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    difference += std::pow(from_bf16(y[i]) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

/// A context on the first GPU and a stream.
struct Gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;

  Gpu() {
    warptune::check(cuDeviceGet(&device, 0), "cuDeviceGet");
    warptune::check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    warptune::check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    warptune::check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  ~Gpu() {
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(device);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
};

/// Captures what `body` launches, and replays it twice.
inline void replay(CUstream stream, const std::function<void()>& body) {
  warptune::check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  body();
  CUgraph graph = nullptr;
  warptune::check(cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  CUgraphExec executable = nullptr;
  warptune::check(cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
  for (int i = 0; i < 2; ++i) warptune::check(cuGraphLaunch(executable, stream), "cuGraphLaunch");
  warptune::check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
}

/// Runs `body` where there is a GPU and a folder is given. Exits with 77 where there is no GPU.
inline int run_example(int argc, const char* usage, const std::function<int()>& body) {
  constexpr int kNoGpu = 77;
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  int count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
    std::fprintf(stderr, "there is no GPU here\n");
    return kNoGpu;
  }
  try {
    return body();
  } catch (const warptune::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
