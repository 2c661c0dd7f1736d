#pragma once
// What a CUDA device launches: kernels with their attributes and tensor maps, plans, captured graphs.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "harness/device/argument_values.h"
#include "harness/device/compile.h"
#include "harness/device/cuda_check.h"
#include "harness/device/device.h"
#include "harness/device/loaded_kernel.h"
#include "harness/device/tensor_map.h"
#include "kernels/common/peers.h"

namespace warptune {

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

/// A loaded kernel and how to launch it.
class Kernel {
 public:
  Kernel(const Cubin& cubin, const Launch& launch) : kernel_(cubin.code, cubin.entry), launch_(launch) {
    if (launch.shared_bytes > 0)  // even below 48 KB: static shared memory adds to it
      kernel_.allow_shared_bytes(static_cast<int>(launch.shared_bytes));
    if (launch.cluster > 8) kernel_.allow_large_clusters();
  }

  /// Enqueues the kernel with its own geometry or a given one.
  void launch(const void* args, cudaStream_t stream, const Launch* geometry = nullptr,
              std::span<const TensorMapSpec> tensor_maps = {}, const Peers* peers = nullptr) const {
    launch_with({const_cast<void*>(args)}, stream, geometry, tensor_maps, peers);
  }
  /// The same with the address of each argument.
  void launch_with(std::vector<void*> arguments, cudaStream_t stream, const Launch* geometry = nullptr,
                   std::span<const TensorMapSpec> tensor_maps = {}, const Peers* peers = nullptr) const {
    const Launch& l = geometry ? *geometry : launch_;
    Attributes attributes{};
    const cudaLaunchConfig_t config = configure(l, attributes, stream);
    std::vector<EncodedTensorMap> maps;
    for (const TensorMapSpec& map : tensor_maps) maps.push_back(encode_tensor_map(map));
    for (EncodedTensorMap& map : maps) arguments.push_back(&map);
    if (peers) arguments.push_back(const_cast<Peers*>(peers));
    kernel_.launch(config, arguments.data());
  }

  /// As LoadedKernel does.
  void prefer_shared_carveout(int percent) const { kernel_.prefer_shared_carveout(percent); }

  /// The address of constant memory of its code.
  void* constant(const std::string& symbol) const { return kernel_.constant(symbol); }

  /// Rounds the grid down to whole clusters, at most as many as the device runs at the same time: persistent
  /// blocks are one wave.
  void limit_to_one_wave() {
    launch_.grid.x -= launch_.grid.x % launch_.cluster;
    Attributes attributes{};
    const cudaLaunchConfig_t config = configure(launch_, attributes, nullptr);
    const auto clusters = static_cast<unsigned>(kernel_.max_active_clusters(config));
    launch_.grid.x = std::min(launch_.grid.x, clusters * launch_.cluster);
  }

 private:
  using Attributes = std::array<cudaLaunchAttribute, 3>;

  /// Refers to `attributes`, which it fills.
  static cudaLaunchConfig_t configure(const Launch& l, Attributes& attributes, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(l.grid.x, l.grid.y, l.grid.z);
    config.blockDim = dim3(l.block.x, l.block.y, l.block.z);
    config.dynamicSmemBytes = static_cast<std::size_t>(l.shared_bytes);
    config.stream = stream;
    config.attrs = attributes.data();
    if (l.pdl) {
      attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (l.cooperative) {
      attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
      attributes[config.numAttrs++].val.cooperative = 1;
    }
    if (l.cluster > 1) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs].val.clusterDim.x = l.cluster;
      attributes[config.numAttrs].val.clusterDim.y = 1;
      attributes[config.numAttrs++].val.clusterDim.z = 1;
    }
    return config;
  }

  LoadedKernel kernel_;
  Launch launch_;
};

/// Constant memory with the contents of a tensor, whose address is a member of the op's struct.
struct TensorConstant {
  void* address = nullptr;
  std::size_t tensor_offset = 0, bytes = 0;
};

/// A kernel of a plan, and its tensor maps, which are made from the args of a launch.
struct PlannedKernel {
  Kernel kernel;
  TensorMaps tensor_maps;
  std::vector<KernelArgument> arguments = {};  // empty: the op's struct
  void* workspace = nullptr;                   // memory of the plan, for an argument
  std::vector<TensorConstant> constants = {};  // filled before each launch
  std::shared_ptr<const Peers> peers = {};     // null: it is not for ranks

  void operator()(const void* args, void* stream) const {
    for (const TensorConstant& c : constants) {
      const void* tensor = nullptr;
      std::memcpy(&tensor, static_cast<const std::byte*>(args) + c.tensor_offset, sizeof tensor);
      WARPTUNE_CUDA_CHECK(
          cudaMemcpyAsync(c.address, tensor, c.bytes, cudaMemcpyDeviceToDevice, native({stream})));
    }
    const auto maps = tensor_maps(args);
    if (arguments.empty())
      kernel.launch(args, native({stream}), nullptr, maps, peers.get());
    else
      kernel.launch_with(ArgumentValues(arguments, args, workspace).addresses(), native({stream}), nullptr,
                         maps);
  }
};

/// Kernels and library calls, in order.
class CudaPlan : public Plan {
 public:
  using Step = std::variant<PlannedKernel, VendorFunction>;
  /// `own` is memory that the steps use besides the workspace.
  CudaPlan(std::vector<Step> steps, Resources resources, std::int64_t workspace, Buffer own = {})
      : steps_(std::move(steps)), resources_(resources), workspace_(workspace), own_(std::move(own)) {}
  void launch(const void* args, Stream stream) const override {
    for (const Step& step : steps_)
      std::visit([&](const auto& enqueue) { enqueue(args, stream.handle); }, step);
  }
  std::int64_t workspace_bytes() const override { return workspace_; }
  Resources resources() const override { return resources_; }

 private:
  std::vector<Step> steps_;
  Resources resources_;
  std::int64_t workspace_;
  Buffer own_;
};

/// A captured stream, instantiated.
class CudaGraph : public CapturedGraph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void(Stream)>& body) {
    WARPTUNE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      body({stream});
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    WARPTUNE_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    const cudaError_t code = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(code, "cudaGraphInstantiate");
    WARPTUNE_CUDA_CHECK(cudaGraphUpload(executable_, stream));
  }
  ~CudaGraph() override {
    if (executable_) cudaGraphExecDestroy(executable_);
  }
  void launch(Stream stream) override { WARPTUNE_CUDA_CHECK(cudaGraphLaunch(executable_, native(stream))); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace warptune
