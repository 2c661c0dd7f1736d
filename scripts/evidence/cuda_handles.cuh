#pragma once
// CUDA calls that throw, and handles that release themselves, for the programs of this folder.
#include <cuda_runtime.h>

#include <memory>
#include <stdexcept>
#include <string>

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

}  // namespace warptune::evidence
