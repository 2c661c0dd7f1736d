// A kernel of a plan, as warptune.json describes it: its grid, its block and its tensor maps.
#pragma once
#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "warptune/args_layout.h"
#include "warptune/detail/files.h"
#include "warptune/detail/formula.h"
#include "warptune/detail/json.h"

namespace warptune::detail {

inline constexpr std::size_t kMaxTensorMaps = 8, kMaxRank = 5;  // of a stage; of a tensor map, by the driver

/// The entry of a table that a value names, of (name, entry) pairs.
template <class Value, std::size_t n, class Key>
Value chosen(const Json& json, const Key& key, const std::pair<Key, Value> (&table)[n]) {
  for (const auto& [known, value] : table)
    if (known == key) return value;
  throw Error("'" + json.name() + "' is " + json.word() + ", which is not supported");
}

/// Describes a CUtensorMap, whose dims and strides are formulas of members of the args.
struct TensorMap {
  std::size_t base;  // the index of the pointer
  std::string name;  // for messages
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion l2_promotion;
  std::vector<Formula> dims, strides;  // 1 to kMaxRank dims, and a stride less
  std::array<cuuint32_t, kMaxRank> box{};

  TensorMap(const Json& json, const ArgsLayout& args)
      : base(args.index(json["base"].text())),
        name("the tensor map of '" + json["base"].text() + "'"),
        type(type_of(json["dtype"])),
        swizzle(swizzle_of(json["swizzle_bytes"])),
        l2_promotion(promotion_of(json["l2_promotion_bytes"])) {
    if (args.fields()[base].type != Field::Type::pointer)
      throw Error("'base' must name a pointer of the args");
    const std::size_t rank = json["dims"].list().size();
    if (rank < 1 || rank > kMaxRank)
      throw Error("'dims' has " + std::to_string(rank) + " values; it must have 1 to " +
                  std::to_string(kMaxRank));
    const auto number_of = [&](const Json& name) {
      const std::size_t i = args.index(name.text());
      if (args.fields()[i].is_real() || args.fields()[i].type == Field::Type::pointer)
        throw Error("'" + name.name() + "' must name an integer of the args");
      return i;
    };
    for (const Json& dim : json["dims"].list()) dims.emplace_back(dim, number_of);
    for (const Json& stride : json["strides"].list(rank - 1)) strides.emplace_back(stride, number_of);
    constexpr std::int64_t kMaxBox = 256;
    for (std::size_t i = 0; i < rank; ++i)
      box[i] = static_cast<cuuint32_t>(json["box"].list(rank)[i].whole(1, kMaxBox));
  }

 private:
  static CUtensorMapDataType type_of(const Json& json) {
    static const std::pair<std::string, CUtensorMapDataType> kTypes[] = {
        {"fp16", CU_TENSOR_MAP_DATA_TYPE_FLOAT16}, {"bf16", CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
        {"fp32", CU_TENSOR_MAP_DATA_TYPE_FLOAT32}, {"int32", CU_TENSOR_MAP_DATA_TYPE_INT32},
        {"int8", CU_TENSOR_MAP_DATA_TYPE_UINT8},   {"fp8", CU_TENSOR_MAP_DATA_TYPE_UINT8}};
    return chosen(json, json.text(), kTypes);
  }
  static CUtensorMapSwizzle swizzle_of(const Json& json) {
    static const std::pair<std::int64_t, CUtensorMapSwizzle> kSwizzles[] = {
        {0, CU_TENSOR_MAP_SWIZZLE_NONE}, {64, CU_TENSOR_MAP_SWIZZLE_64B}, {128, CU_TENSOR_MAP_SWIZZLE_128B}};
    return chosen(json, json.whole(0, 128), kSwizzles);
  }
  static CUtensorMapL2promotion promotion_of(const Json& json) {
    static const std::pair<std::int64_t, CUtensorMapL2promotion> kPromotions[] = {
        {0, CU_TENSOR_MAP_L2_PROMOTION_NONE},
        {64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B},
        {128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
        {256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B}};
    return chosen(json, json.whole(0, 256), kPromotions);
  }
};

/// A parameter of a kernel: these bytes of the args.
struct Parameter {
  std::size_t offset, size;

  Parameter(std::size_t first, std::size_t bytes) : offset(first), size(bytes) {}
  Parameter(const Json& json, const ArgsLayout& args)
      : offset(number(json["offset"], 0, args)), size(number(json["size"], 1, args)) {
    if (offset + size > args.bytes()) throw Error("the parameter ends outside of the args");
  }

 private:
  static std::size_t number(const Json& json, std::int64_t least, const ArgsLayout& args) {
    return static_cast<std::size_t>(json.whole(least, static_cast<std::int64_t>(args.bytes())));
  }
};

/// A kernel, with formulas of the dims in `ranges`.
struct Stage {
  std::string cubin, kernel;
  std::array<Formula, 3> grid, block;
  Formula shared_bytes, max_blocks;
  unsigned cluster;
  bool pdl, per_sm;
  std::vector<Parameter> parameters;  // before the tensor maps; one for a kernel that takes the struct
  std::vector<TensorMap> tensor_maps;

  Stage(const Json& json, const Ranges& ranges, const ArgsLayout& args)
      : cubin(json["cubin"].text()),
        kernel(json["kernel"].text()),
        grid(formulas(json["grid"], ranges)),
        block(formulas(json["block"], ranges)),
        shared_bytes(formula(json["shared_bytes"], ranges)),
        max_blocks(formula(json["max_blocks"], ranges)),
        cluster(static_cast<unsigned>(json["cluster"].whole(1, kMaxCluster))),
        pdl(json["pdl"].boolean()),
        per_sm(json["per_sm"].boolean()) {
    expect_inside(cubin);
    json["expression"].text();
    read_parameters(json, args);
    const std::vector<Json>& maps = json["tensor_maps"].list();
    if (maps.size() > kMaxTensorMaps)
      throw Error("'tensor_maps' has " + std::to_string(maps.size()) + " values; at most " +
                  std::to_string(kMaxTensorMaps) + " are supported");
    for (const Json& map : maps)
      tensor_maps.push_back(within(map.name(), [&] { return TensorMap(map, args); }));
  }

 private:
  static constexpr std::int64_t kMaxCluster = 16;

  void read_parameters(const Json& json, const ArgsLayout& args) {
    const Json* list = json.find("arguments");
    if (!list) {
      parameters.emplace_back(0, args.bytes());
      return;
    }
    for (const Json& parameter : list->list())
      parameters.push_back(within(parameter.name(), [&] { return Parameter(parameter, args); }));
  }

  static Formula formula(const Json& json, const Ranges& ranges) {
    return Formula(json, [&](const Json& name) { return index_of(ranges, name); });
  }
  static std::array<Formula, 3> formulas(const Json& json, const Ranges& ranges) {
    const std::vector<Json>& list = json.list(3);
    return {formula(list[0], ranges), formula(list[1], ranges), formula(list[2], ranges)};
  }
};

/// The launch of a stage for the values of the dims: inside of what any device can launch.
struct Geometry {
  std::array<unsigned, 3> grid{}, block{};  // grid[0] counts blocks per SM where the stage is per_sm
  unsigned shared_bytes;
  std::int64_t max_blocks;

  Geometry(const Stage& stage, const std::vector<std::int64_t>& dims) {
    constexpr std::int64_t kMaxGrid[] = {kMaxBlocks, 65535, 65535}, kMaxBlock[] = {1024, 1024, 64},
                           kMaxThreads = 1024;
    const auto dim = [&](std::size_t i) { return dims.at(i); };
    for (std::size_t i = 0; i < 3; ++i) {
      grid[i] = static_cast<unsigned>(stage.grid[i].evaluate(dim, 1, kMaxGrid[i]));
      block[i] = static_cast<unsigned>(stage.block[i].evaluate(dim, 1, kMaxBlock[i]));
    }
    if (block[0] * block[1] * block[2] > kMaxThreads)
      throw Error("'block' has more than " + std::to_string(kMaxThreads) + " threads");
    if (!stage.per_sm && grid[0] % stage.cluster != 0)
      throw Error("'grid[0]' is " + std::to_string(grid[0]) + " here, which is no multiple of 'cluster', " +
                  std::to_string(stage.cluster));
    shared_bytes =
        static_cast<unsigned>(stage.shared_bytes.evaluate(dim, 0, std::numeric_limits<std::int32_t>::max()));
    max_blocks = stage.max_blocks.evaluate(dim, 0, kMaxBlocks);
  }

  static constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();  // along x
};

inline Geometry geometry_of(const Stage& stage, const std::vector<std::int64_t>& dims) {
  return within("kernel '" + stage.kernel + "'", [&] { return Geometry(stage, dims); });
}

}  // namespace warptune::detail
