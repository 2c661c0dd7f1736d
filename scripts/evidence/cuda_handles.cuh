#pragma once
// For the programs of this folder: CUDA calls that throw, handles that release themselves, launches with
// programmatic dependent launch, captured graphs and their times.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace warptune::evidence {

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}
#define CHECKED(call) check((call), #call)  // throws the message of the runtime

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* it) const {
    kDestroy(it);
  }
};
using Event = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using CapturedGraph = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;
template <class T>
using Device = std::unique_ptr<T[], Destroy<cudaFree>>;

template <class T>
Device<T> allocate(long long count) {
  T* data = nullptr;
  CHECKED(cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(T)));
  CHECKED(cudaMemset(data, 0, static_cast<std::size_t>(count) * sizeof(T)));
  return Device<T>(data);
}

inline Event make_event() {
  cudaEvent_t event = nullptr;
  CHECKED(cudaEventCreate(&event));
  return Event(event);
}
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}
inline unsigned sm_count() {
  int device = 0, count = 0;
  CHECKED(cudaGetDevice(&device));
  CHECKED(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return static_cast<unsigned>(count);
}

/// Launches with PDL: the kernel calls pdl_wait(). `shared`: bytes of dynamic shared memory.
template <class Args>
void launch_pdl(void (*kernel)(Args), const Args& args, dim3 grid, int threads, std::size_t shared,
                cudaStream_t stream) {
  CHECKED(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  cudaLaunchAttribute pdl{.id = cudaLaunchAttributeProgrammaticStreamSerialization};
  pdl.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{.gridDim = grid,
                                  .blockDim = dim3(static_cast<unsigned>(threads)),
                                  .dynamicSmemBytes = shared,
                                  .stream = stream,
                                  .attrs = &pdl,
                                  .numAttrs = 1};
  CHECKED(cudaLaunchKernelEx(&config, kernel, args));
}

/// The CUDA graph of what `enqueue` puts into `stream`.
template <class Enqueue>
CapturedGraph capture(cudaStream_t stream, Enqueue enqueue) {
  CHECKED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  enqueue();
  cudaGraph_t captured = nullptr;
  CHECKED(cudaStreamEndCapture(stream, &captured));
  const Graph graph(captured);
  cudaGraphExec_t executable = nullptr;
  CHECKED(cudaGraphInstantiate(&executable, captured, 0));
  return CapturedGraph(executable);
}

/// The median time of 20 replays of a graph, in microseconds, after four that warm up.
inline double median_us(const CapturedGraph& graph, cudaStream_t stream) {
  constexpr int kReplays = 20, kWarmUps = 4;
  const Event begin = make_event(), end = make_event();
  std::vector<float> ms;
  for (int i = 0; i < kWarmUps + kReplays; ++i) {
    CHECKED(cudaEventRecord(begin.get(), stream));
    CHECKED(cudaGraphLaunch(graph.get(), stream));
    CHECKED(cudaEventRecord(end.get(), stream));
    CHECKED(cudaEventSynchronize(end.get()));
    float elapsed = 0;
    CHECKED(cudaEventElapsedTime(&elapsed, begin.get(), end.get()));
    if (i >= kWarmUps) ms.push_back(elapsed);
  }
  std::ranges::sort(ms);
  return ms[ms.size() / 2] * 1e3;
}

/// The body of main(): what `run` returns, or 2 after an exception, whose message goes to stderr.
template <class Run>
int run_program(const char* name, Run run) {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    return 2;
  }
}

}  // namespace warptune::evidence
