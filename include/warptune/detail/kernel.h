// A kernel of a cubin: its launch as numbers and formulas, loaded and launched by the driver API.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptune/args.h"
#include "warptune/detail/json.h"

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

/// A number, or plus + times * the product of ceil(multiplier * value / divisor) over the factors.
struct Formula {
  struct Factor {
    std::string of;
    std::int64_t multiplier, divisor;
  };
  std::int64_t plus = 0, times = 0;
  std::vector<Factor> factors;

  static Formula of(const Json& json) {
    if (json.kind() == Json::Kind::number) return {json.whole(), 0, {}};
    Formula formula{json["plus"].whole(), json["times"].whole(), {}};
    for (const Json& f : json["factors"].items())
      formula.factors.push_back({f["of"].text(), f["multiplier"].whole(), f["divisor"].whole()});
    return formula;
  }
  template <class ValueOf>
  std::int64_t evaluate(const ValueOf& value_of) const {
    std::int64_t product = times;
    for (const Factor& f : factors) product *= (f.multiplier * value_of(f.of) + f.divisor - 1) / f.divisor;
    return plus + product;
  }
};

inline std::vector<Formula> formulas(const Json& list) {
  std::vector<Formula> all;
  for (const Json& json : list.items()) all.push_back(Formula::of(json));
  return all;
}

struct TensorMap {
  std::string base;
  CUtensorMapDataType type;
  std::vector<Formula> dims, strides;
  std::vector<cuuint32_t> box;
  bool swizzled;
};

struct Stage {
  std::string cubin, kernel;
  std::vector<Formula> grid, block;
  Formula shared_bytes, max_blocks;
  unsigned cluster;
  bool pdl, per_sm;
  std::vector<TensorMap> tensor_maps;
};

inline CUtensorMapDataType tensor_map_type(const std::string& dtype) {
  if (dtype == "fp16") return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (dtype == "bf16") return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (dtype == "int32") return CU_TENSOR_MAP_DATA_TYPE_INT32;
  if (dtype == "fp32") return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

inline Stage stage_of(const Json& json) {
  Stage stage{json["cubin"].text(),
              json["kernel"].text(),
              formulas(json["grid"]),
              formulas(json["block"]),
              Formula::of(json["shared_bytes"]),
              Formula::of(json["max_blocks"]),
              static_cast<unsigned>(json["cluster"].whole()),
              json["pdl"].boolean(),
              json["per_sm"].boolean(),
              {}};
  for (const Json& map : json["tensor_maps"].items()) {
    TensorMap one{map["base"].text(),
                  tensor_map_type(map["dtype"].text()),
                  formulas(map["dims"]),
                  formulas(map["strides"]),
                  {},
                  map["swizzle_bytes"].whole() == 128};
    for (const Json& length : map["box"].items()) one.box.push_back(static_cast<cuuint32_t>(length.whole()));
    stage.tensor_maps.push_back(std::move(one));
  }
  return stage;
}

/// A cubin loaded into the context that was current.
class Module {
 public:
  explicit Module(const std::string& path) {
    check(cuModuleLoadData(&module_, read_file(path).c_str()), "cuModuleLoadData of '" + path + "'");
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

inline constexpr std::size_t kMaxTensorMaps = 8, kMaxRank = 5;  // of a stage; of a tensor map, by the driver

/// A kernel with the geometry of its launch.
class Kernel {
 public:
  template <class ValueOf>
  Kernel(const Stage& stage, std::shared_ptr<const Module> module, const ValueOf& dim)
      : stage_(&stage), module_(std::move(module)), function_(module_->function(stage.kernel)) {
    if (stage.tensor_maps.size() > kMaxTensorMaps)
      throw Error(stage.kernel + " has " + std::to_string(stage.tensor_maps.size()) +
                  " tensor maps; at most " + std::to_string(kMaxTensorMaps) + " are supported");
    for (const TensorMap& map : stage.tensor_maps)
      if (map.dims.size() > kMaxRank || map.strides.size() >= map.dims.size())
        throw Error("the tensor map of '" + map.base + "' has " + std::to_string(map.dims.size()) +
                    " dims and " + std::to_string(map.strides.size()) + " strides");
    for (std::size_t i = 0; i < 3; ++i) {
      grid_[i] = static_cast<unsigned>(stage.grid[i].evaluate(dim));
      block_[i] = static_cast<unsigned>(stage.block[i].evaluate(dim));
    }
    shared_bytes_ = static_cast<unsigned>(stage.shared_bytes.evaluate(dim));
    allow_resources();
    if (stage.per_sm) spread_over_device(stage.max_blocks.evaluate(dim));
  }

  void launch(const Args& args, CUstream stream, bool pdl) const {
    std::array<CUlaunchAttribute, 2> attributes{};
    CUlaunchConfig config = configure(attributes, pdl);
    config.hStream = stream;
    std::array<CUtensorMap, kMaxTensorMaps> maps;
    std::array<void*, 1 + kMaxTensorMaps> arguments{const_cast<void*>(args.data())};
    for (std::size_t i = 0; i < stage_->tensor_maps.size(); ++i) {
      maps[i] = encode(stage_->tensor_maps[i], args);
      arguments[1 + i] = &maps[i];
    }
    check(cuLaunchKernelEx(&config, function_, arguments.data(), nullptr), "launch of ", stage_->kernel);
  }

 private:
  void allow_resources() const {
    constexpr unsigned kPortableCluster = 8;
    int allowed = 0;
    check(cuFuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function_),
          "cuFuncGetAttribute");
    if (static_cast<int>(shared_bytes_) > allowed)  // 48 KB less the static shared memory, or of another plan
      check(cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(shared_bytes_)),
            "cuFuncSetAttribute");
    if (stage_->cluster > kPortableCluster)
      check(cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "cuFuncSetAttribute");
  }
  /// The grid counts blocks per SM. Clusters of persistent blocks are one wave.
  void spread_over_device(std::int64_t max_blocks) {
    const std::int64_t sms = device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    std::int64_t blocks = grid_[0] * sms;
    if (max_blocks > 0) blocks = std::min(blocks, max_blocks);
    grid_[0] = static_cast<unsigned>(blocks);
    if (stage_->cluster == 1) return;
    grid_[0] -= grid_[0] % stage_->cluster;
    std::array<CUlaunchAttribute, 2> attributes{};
    const CUlaunchConfig config = configure(attributes, stage_->pdl);
    int clusters = 0;
    check(cuOccupancyMaxActiveClusters(&clusters, function_, &config), "cuOccupancyMaxActiveClusters");
    grid_[0] = std::min(grid_[0], static_cast<unsigned>(clusters) * stage_->cluster);
  }
  /// Refers to `attributes`, which it fills.
  CUlaunchConfig configure(std::array<CUlaunchAttribute, 2>& attributes, bool pdl) const {
    CUlaunchConfig config{};
    config.gridDimX = grid_[0];
    config.gridDimY = grid_[1];
    config.gridDimZ = grid_[2];
    config.blockDimX = block_[0];
    config.blockDimY = block_[1];
    config.blockDimZ = block_[2];
    config.sharedMemBytes = shared_bytes_;
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
    const auto member = [&](const std::string& name) { return args.whole(name); };
    std::array<cuuint64_t, kMaxRank> dims{}, strides{};
    for (std::size_t i = 0; i < map.dims.size(); ++i)
      dims[i] = static_cast<cuuint64_t>(map.dims[i].evaluate(member));
    for (std::size_t i = 0; i < map.strides.size(); ++i)
      strides[i] = static_cast<cuuint64_t>(map.strides[i].evaluate(member));
    const std::array<cuuint32_t, kMaxRank> steps{1, 1, 1, 1, 1};
    CUtensorMap encoded{};
    check(cuTensorMapEncodeTiled(&encoded, map.type, static_cast<cuuint32_t>(map.dims.size()),
                                 reinterpret_cast<void*>(static_cast<std::uintptr_t>(args.whole(map.base))),
                                 dims.data(), strides.data(), map.box.data(), steps.data(),
                                 CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 map.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled for ", map.base);
    return encoded;
  }

  const Stage* stage_;
  std::shared_ptr<const Module> module_;
  CUfunction function_;
  std::array<unsigned, 3> grid_{}, block_{};
  unsigned shared_bytes_ = 0;
};

}  // namespace detail
}  // namespace warptune
