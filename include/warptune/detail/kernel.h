// A kernel of a cubin, loaded and launched by the driver API.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptune/args.h"
#include "warptune/detail/cubin.h"
#include "warptune/detail/files.h"
#include "warptune/detail/json.h"
#include "warptune/detail/stage.h"

namespace warptune {

/// Throws Error with the driver's text if a call of the driver API failed. `call` and `of` name it; they are
/// joined only then.
inline void check(CUresult result, std::string_view call, std::string_view of = {}) {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  throw Error(std::string(call).append(of) + ": " +
              (name ? name : "error " + std::to_string(static_cast<int>(result))) +
              (text ? std::string(", ") + text : std::string()));
}

namespace detail {

/// A cubin loaded into the context that was current.
class Module {
 public:
  explicit Module(const std::filesystem::path& path) {
    constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 30;
    const std::string image = read_file(path, kMaxBytes);
    within("'" + path.string() + "'", [&] { expect_complete(image); });
    check(cuModuleLoadData(&module_, image.c_str()), "cuModuleLoadData of ", path.string());
  }
  ~Module() { cuModuleUnload(module_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  CUfunction function(const std::string& name) const {
    CUfunction function = nullptr;
    check(cuModuleGetFunction(&function, module_, name.c_str()), "cuModuleGetFunction of " + name);
    return function;
  }

 private:
  CUmodule module_ = nullptr;
};

inline int device_attribute(CUdevice_attribute attribute) {
  CUdevice device = 0;
  int value = 0;
  check(cuCtxGetDevice(&device), "cuCtxGetDevice (is a context current?)");
  check(cuDeviceGetAttribute(&value, attribute, device), "cuDeviceGetAttribute");
  return value;
}

/// A kernel with the geometry of its launch. The stage must outlive it.
class Kernel {
 public:
  /// `dims`: the values of the dims in Entry::ranges.
  Kernel(const Stage& stage, const std::vector<std::int64_t>& dims, std::shared_ptr<const Module> module)
      : stage_(&stage),
        geometry_(geometry_of(stage, dims)),
        module_(std::move(module)),
        function_(module_->function(stage.kernel)) {
    allow_resources();
    if (stage.per_sm) spread_over_device();
  }

  void launch(const Args& args, CUstream stream, bool pdl) const {
    std::array<CUlaunchAttribute, 2> attributes{};
    CUlaunchConfig config = configure(attributes, pdl);
    config.hStream = stream;
    std::array<CUtensorMap, kMaxTensorMaps> maps;
    std::vector<void*> parameters;
    parameters.reserve(stage_->parameters.size() + stage_->tensor_maps.size());
    for (const Parameter& parameter : stage_->parameters)
      parameters.push_back(static_cast<char*>(const_cast<void*>(args.data())) + parameter.offset);
    for (std::size_t i = 0; i < stage_->tensor_maps.size(); ++i) {
      const TensorMap& map = stage_->tensor_maps[i];
      maps[i] = within(map.name, [&] { return encode(map, args); });
      parameters.push_back(&maps[i]);
    }
    check(cuLaunchKernelEx(&config, function_, parameters.data(), nullptr), "launch of ", stage_->kernel);
  }

 private:
  void allow_resources() const {
    constexpr unsigned kPortableCluster = 8;
    int allowed = 0;
    check(cuFuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function_),
          "cuFuncGetAttribute");
    const int shared_bytes = static_cast<int>(geometry_.shared_bytes);
    if (shared_bytes > allowed)  // 48 KB less the static shared memory, or of another plan
      check(cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes),
            "cuFuncSetAttribute for ", stage_->kernel);
    if (stage_->cluster > kPortableCluster)
      check(cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "cuFuncSetAttribute");
    if (stage_->pdl)  // an SM must be idle to change its shared-memory carveout
      check(cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                               CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
            "cuFuncSetAttribute");
  }
  /// The grid counts blocks per SM. Clusters of persistent blocks are one wave.
  void spread_over_device() {
    const std::int64_t sms = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                       cluster = stage_->cluster;
    std::int64_t blocks = geometry_.grid[0] * sms;
    if (geometry_.max_blocks > 0) blocks = std::min(blocks, geometry_.max_blocks);
    set_blocks(blocks - blocks % cluster);
    if (cluster == 1) return;
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = configure(attributes, stage_->pdl);
    int clusters = 0;
    check(cuOccupancyMaxActiveClusters(&clusters, function_, &config), "cuOccupancyMaxActiveClusters");
    set_blocks(std::min<std::int64_t>(geometry_.grid[0], clusters * cluster));
  }
  void set_blocks(std::int64_t blocks) {
    if (blocks < 1 || blocks > Geometry::kMaxBlocks)
      throw Error("kernel '" + stage_->kernel + "' gets " + std::to_string(blocks) +
                  " blocks on this device; it must be 1 to " + std::to_string(Geometry::kMaxBlocks));
    geometry_.grid[0] = static_cast<unsigned>(blocks);
  }
  /// Refers to `attributes`, which it fills.
  CUlaunchConfig configure(std::array<CUlaunchAttribute, 2>& attributes, bool pdl) const {
    CUlaunchConfig config{};
    config.gridDimX = geometry_.grid[0];
    config.gridDimY = geometry_.grid[1];
    config.gridDimZ = geometry_.grid[2];
    config.blockDimX = geometry_.block[0];
    config.blockDimY = geometry_.block[1];
    config.blockDimZ = geometry_.block[2];
    config.sharedMemBytes = geometry_.shared_bytes;
    config.attrs = attributes.data();
    if (stage_->pdl && pdl) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (stage_->cluster > 1) {
      attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[config.numAttrs].value.clusterDim.x = stage_->cluster;
      attributes[config.numAttrs].value.clusterDim.y = 1;
      attributes[config.numAttrs++].value.clusterDim.z = 1;
    }
    return config;
  }
  static CUtensorMap encode(const TensorMap& map, const Args& args) {
    const auto member = [&](std::size_t i) { return args.whole_at(i); };
    constexpr std::int64_t kMaxDim = std::int64_t{1} << 32, kMaxStride = std::int64_t{1} << 40;
    std::array<cuuint64_t, kMaxRank> dims{}, strides{};
    for (std::size_t i = 0; i < map.dims.size(); ++i)
      dims[i] = static_cast<cuuint64_t>(map.dims[i].evaluate(member, 1, kMaxDim));
    for (std::size_t i = 0; i < map.strides.size(); ++i)
      strides[i] = static_cast<cuuint64_t>(map.strides[i].evaluate(member, 0, kMaxStride));
    const std::array<cuuint32_t, kMaxRank> steps{1, 1, 1, 1, 1};
    CUtensorMap encoded{};
    check(cuTensorMapEncodeTiled(
              &encoded, map.type, static_cast<cuuint32_t>(map.dims.size()),
              reinterpret_cast<void*>(static_cast<std::uintptr_t>(args.whole_at(map.base))), dims.data(),
              strides.data(), map.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, map.swizzle,
              map.l2_promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled");
    return encoded;
  }

  const Stage* stage_;
  Geometry geometry_;
  std::shared_ptr<const Module> module_;
  CUfunction function_;
};

}  // namespace detail
}  // namespace warptune
