// Variants of attention_prefill on the GPU, in rising difficulty. wgmma.cpp has the one for Hopper.
#include <algorithm>

#include "kernels/attention_prefill/tile_dim.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"
#include "variants/attention_prefill/work_tiles.h"

namespace warptune {
namespace {

using namespace prefill;

/// In constraints: tile_dim() of the rows of K, of V, and the wider one.
const std::string kTileDim = "(head_dim + (16 - head_dim % 16) % 16)",
                  kTileDimV = "(" + kValueDim + " + (16 - " + kValueDim + " % 16) % 16)",
                  kWiderTileDim = "max(" + kTileDim + ", " + kTileDimV + ")";

/// One block per tile of `tile` queries of a head.
Launch per_query_tile(const Problem& p, std::int64_t tile, std::int64_t threads, std::int64_t shared_bytes) {
  return {.grid = {blocks_for(p["q_len"], tile) * as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
          .block = {as_unsigned(threads)},
          .shared_bytes = shared_bytes};
}

Variant unfused() {
  const auto per_tile = [](std::int64_t columns, const Problem& p, const Config& c) {
    const auto tile = as_unsigned(c["tile"]);
    const std::int64_t tiles = ceil_div(columns, tile) * ceil_div(p["q_len"], tile);
    return Launch{.grid = {as_unsigned(tiles * p["batch"] * p["q_heads"])}, .block = {tile, tile}};
  };
  const std::string lengths = ", {q_len}, {kv_len}, ";
  return {
      .name = "unfused",
      .idea = "unfused: Q.K^T, softmax and P.V as three kernels, scores in global memory",
      .parameters = {{"tile", {8, 16, 32}, "GEMM tile: rows and columns per block"},
                     {"block", {64, 128, 256, 512}, "threads per row of the softmax"}},
      .constraints = {"batch * q_heads * q_len * kv_len <= 4e9"},
      .stages = {{"attention_prefill/unfused.cu",
                  "attention_prefill_scores<{dtype}, " + kShape + lengths + "{tile}>",
                  [=](const Problem& p, const Config& c) { return per_tile(p["kv_len"], p, c); }},
                 {"attention_prefill/unfused.cu",
                  "attention_prefill_softmax<{dtype}, " + kShape + lengths + "{block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {as_unsigned(p["batch"] * p["q_heads"] * p["q_len"])},
                                  .block = {as_unsigned(c["block"])}};
                  }},
                 {"attention_prefill/unfused.cu",
                  "attention_prefill_values<{dtype}, " + kShape + lengths + "{tile}>",
                  [=](const Problem& p, const Config& c) { return per_tile(value_dim(p), p, c); }}},
      .constants = shape_constants,
      .workspace_bytes =
          [](const Problem& p, const Config&) {
            return p["batch"] * p["q_heads"] * p["q_len"] * p["kv_len"] * 4;
          },
  };
}

/// Shared memory of tiled.cu: Q tile, one tile for K and V, P tile, in fp32 with padded rows.
std::int64_t tiled_shared_bytes(const Problem& p, const Config& c) {
  const auto stride = [](std::int64_t d) { return d % 4 == 0 ? d + 4 : d | 1; };
  const auto m = c["tile_m"], n = c["tile_n"], k = stride(p["head_dim"]), v = stride(value_dim(p));
  return 4 * (m * k + n * std::max(k, v) + m * (n + 1));
}

Variant tiled() {
  return {
      .name = "tiled",
      .idea =
          "flash attention on the CUDA cores: online softmax, K/V tiles in shared memory, register "
          "micro-tiles",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "queries per block"},
                     {"tile_n", {16, 32, 64}, "keys per K/V tile"},
                     {"block", {64, 128, 256}, "threads per block"}},
      .constraints = {"tile_m * 16 >= block",
                      // Registers of the micro-tiles of scores and output.
                      "tile_m * 16 / block * (" + kValueDim + " + 15 + tile_n) <= 2048"},
      .resources = [](const Problem& p,
                      const Config& c) { return LaunchResources{.shared_bytes = tiled_shared_bytes(p, c)}; },
      .stages = {{"attention_prefill/tiled.cu",
                  "attention_prefill_tiled<{dtype}, " + kShape + ", {tile_m}, {tile_n}, {block}>",
                  [](const Problem& p, const Config& c) {
                    return per_query_tile(p, c["tile_m"], c["block"], tiled_shared_bytes(p, c));
                  }}},
      .constants = shape_constants,
  };
}

/// Shared memory of mem_efficient.cu: Q tile, stages of K and V tiles, P tile, then a float per row and warp
/// column.
std::int64_t mem_efficient_shared_bytes(const Problem& p, const Config& c) {
  const std::int64_t m = c["tile_m"], n = c["tile_n"], d = tile_dim(p["head_dim"]),
                     v = tile_dim(value_dim(p));
  return static_cast<std::int64_t>(size_of(p.dtype)) * (m * d + c["stages"] * n * (d + v) + m * n) +
         4 * c["warps_n"] * m;
}

std::vector<Expression> mem_efficient_constraints() {
  // For occupancy: the tiles of mem_efficient_shared_bytes().
  const std::string tiles = "dtype_bytes * (tile_m * " + kTileDim + " + stages * tile_n * (" + kTileDim +
                            " + " + kTileDimV + ") + tile_m * tile_n)";
  return {
      kLongerDim + " <= 256",
      // The score tile of a warp: 16 or 32 queries, 16 to 64 keys, 1024 scores or more.
      "tile_m <= 32 * warps_m && tile_m >= 16 * warps_m", "tile_n <= 64 * warps_n && tile_n >= 16 * warps_n",
      "tile_m * tile_n >= 1024 * warps_m * warps_n || tile_m == 32",
      // Registers: scores, the output (32 columns of it where it is in memory; in 3xTF32 also that of a
      // tile), loads.
      "tile_m / warps_m * (tile_n / warps_n + (accumulator == 1 ? 32 : " + kTileDimV +
          " / warps_n) * (math == 2 ? 2 : 1)) / 32 + tile_n * " + kWiderTileDim +
          " * dtype_bytes / 256 / warps_m / warps_n + 56 + (dtype_bytes == 4 && math == 0 ? 32 : 0) + "
          "(dropout > 0 || score_bias > 0 ? 16 : 0) + (head_dim % 16 + head_dim_v % 16 > 0 ? 24 : 0) < "
          "min(200, 1984 / (min_blocks_per_sm * warps_m * warps_n))",
      // 8 to 16 warps per SM, fewer where shared memory allows no further block.
      "min_blocks_per_sm * warps_m * warps_n <= 16",
      "min_blocks_per_sm * warps_m * warps_n >= 8 || min_blocks_per_sm == 4 || (min_blocks_per_sm + 1) * (" +
          tiles + ") > shared_per_block",
      "min_blocks_per_sm == 1 || min_blocks_per_sm * (" + tiles +
          " + 4 * warps_n * tile_m) <= shared_per_block",
      "accumulator == 0 || " + kTileDimV + " >= 128", "tile_m < 2 * q_len || tile_m == 32",
      // A pipeline needs shared memory and hides latency itself, instead of more blocks per SM.
      "stages == 1 || (min_blocks_per_sm <= 2 && tile_n <= 64 && accumulator == 0 && kv_len > tile_n)",
      // TF32 only where the problem allows it; 3xTF32 has the accuracy of fp32.
      "math == 0 || dtype_bytes == 4", "(math == 1) == (precision == 1)",
      "math == 0 || accumulator == 0 || " + kWiderTileDim + " > 128"};
}

Variant mem_efficient() {
  return {
      .name = "mem_efficient",
      .idea =
          "memory-efficient attention (xFormers): warps share score rows, P in shared memory; fp32, TF32 or "
          "16-bit mma",
      .parameters = {{"tile_m", {32, 64, 128}, "queries per block"},
                     {"tile_n", {32, 64, 128}, "keys per K/V tile"},
                     {"warps_m", {1, 2, 4}, "warps along the queries"},
                     {"warps_n", {2, 4}, "warps along the keys"},
                     {"accumulator", {0, 1}, "where the output is accumulated", {"registers", "memory"}},
                     {"min_blocks_per_sm", {1, 2, 3, 4}, "occupancy that limits registers (launch bounds)"},
                     {"stages", {1, 2, 3}, "stages of the K/V pipeline"},
                     {"math",
                      {0, 1, 2},
                      "how fp32 is multiplied; 16-bit dtypes use their own mma",
                      {"cuda_cores", "tf32", "tf32x3"}}},
      .constraints = mem_efficient_constraints(),
      .resources =
          [](const Problem& p, const Config& c) {
            return LaunchResources{.shared_bytes = mem_efficient_shared_bytes(p, c)};
          },
      .stages = {{"attention_prefill/mem_efficient.cu",
                  "attention_prefill_mem_efficient<{dtype}, " + kShape +
                      ", {tile_m}, {tile_n}, {warps_m}, {warps_n}, {accumulator} == 1, {min_blocks_per_sm}, "
                      "{stages}, {math}>",
                  [](const Problem& p, const Config& c) {
                    return per_query_tile(p, c["tile_m"], 32 * c["warps_m"] * c["warps_n"],
                                          mem_efficient_shared_bytes(p, c));
                  }}},
      .constants = shape_constants,
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            return c["accumulator"] * p["batch"] * p["q_len"] * p["q_heads"] * tile_dim(value_dim(p)) * 4;
          },
  };
}

/// Query heads that are rows of one tile.
std::int64_t packed_heads(const Problem& p, const Config& c) {
  return c["pack_gqa"] == 1 ? p["q_heads"] / p["kv_heads"] : 1;
}

/// Shared memory of flash_mma.cu: Q (or output) tile, and the stages of K and V tiles, 2 bytes per element.
std::int64_t flash_mma_shared_bytes(const Problem& p, const Config& c) {
  const std::int64_t d = tile_dim(p["head_dim"]), v = tile_dim(value_dim(p));
  return 2 * (c["tile_m"] * std::max(d, v) + c["stages"] * c["tile_n"] * (d + v));
}

std::vector<Expression> flash_mma_constraints() {
  const std::string packable = "(q_heads > kv_heads && q_len <= 64 && score_bias == 0 && dropout == 0)",
                    rows = "(pack_gqa == 1 ? q_len * q_heads / kv_heads : q_len)",
                    blocks = "batch * (pack_gqa == 1 ? kv_heads : q_heads) * max(1, " + rows + " / tile_m)",
                    registers = "tile_m / warps / 16 * (tile_n + " + kTileDimV + " + q_in_regs * " +
                                kTileDim + " / 2) + tile_n * " + kWiderTileDim + " / 128 / warps";
  return {
      kLongerDim + " <= 256",
      "tile_m >= 16 * warps && tile_m <= 32 * warps",
      "warps >= 4 || tile_m <= 32",
      // Registers: of scores, output and Q fragments, and of loads; the right side is what the rest leaves.
      registers + " <= (" + kWiderTileDim +
          " % 64 == 0 && dropout + score_bias + page_size + pack_gqa + k_layout == 0 ? 400 : 336) - "
          "(stages == 1 ? 64 : 0) - (stages == 4 ? 16 : 0) - (dropout > 0 ? 32 : 0) - "
          "(score_bias > 0 ? 48 : 0) - (page_size + k_layout > 0 ? 16 : 0)",
      // ptxas spills these long tiles on sm_80.
      "arch >= 90 || tile_n < 128 || " + registers + " < 336",
      // tile_m of 64 and 128 where there are as many rows, smaller ones for few rows.
      "tile_m < 2 * " + rows + " || tile_m == 16",
      "tile_m >= 64 || " + rows + " <= 2 * tile_m",
      // Small tile_n only where heads are large or pages short.
      "tile_n >= 32 || " + kLongerDim +
          " >= 192 || kv_len <= 64 || (page_size == 16 && stages == 4 && q_in_regs == 1)",
      "tile_n < 2 * kv_len || tile_n == 16",
      "tile_n <= 128 || stages <= 2",
      // Deep pipelines only of small tiles.
      "stages <= 2 || tile_n <= 64",
      // Split-KV for few queries: up to 16 warps per SM.
      "splits == 1 || q_len <= 64",
      "splits == 1 || q_in_regs == 1 || head_dim > 128",
      "splits == 1 || kv_len >= splits * 128",
      "splits <= 2 || " + blocks + " * splits * warps <= 16 * sms",
      "splits == 1 || " + blocks + " * splits * warps >= 2 * sms || kv_len < splits * 256",
      "raster_order == 0 || (" + rows + " > tile_m && splits == 1)",
      "pack_gqa == 0 || " + packable,
      "pack_gqa == 1 || !" + packable + " || (q_in_regs == 1 && stages == 2)",
      // The other layouts show what bank conflicts cost; none is faster than the XOR swizzle.
      "shared_layout == 0 || (tile_m == 64 && tile_n == 64 && warps == 4 && raster_order == 0 && splits == 1 "
      "&& "
      "pack_gqa == 0 && page_size == 0)",
  };
}

Launch flash_mma_launch(const Problem& p, const Config& c) {
  const std::int64_t heads = packed_heads(p, c), m = c["tile_m"];
  Launch launch = per_query_tile(p, m, 32 * c["warps"], flash_mma_shared_bytes(p, c));
  launch.grid.x = blocks_for(p["q_len"] * heads, m) * as_unsigned(p["q_heads"] / heads);
  launch.grid.z = as_unsigned(c["splits"]);
  return launch;
}

Launch split_kv_combine_launch(const Problem& p, const Config&) {
  return {.grid = {as_unsigned(p["q_len"]), as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
          .block = {128}};
}

Variant flash_mma() {
  return {
      .name = "flash_mma",
      .idea = "FlashAttention-2: mma.sync, cp.async K/V pipeline, P in registers; split-KV and packed GQA",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "rows (queries, or queries x packed heads) per block"},
                     {"tile_n", {16, 32, 64, 128, 256}, "keys per K/V tile"},
                     {"warps", {1, 2, 4, 8}, "warps per block, 16 or 32 rows each"},
                     {"stages", {1, 2, 3, 4}, "stages of the K/V pipeline"},
                     {"q_in_regs", {0, 1}, "whether Q fragments stay in registers"},
                     {"raster_order", {0, 1}, "what neighboring blocks are", {"along_m", "along_heads"}},
                     {"splits", {1, 2, 4, 8, 16, 32, 64}, "split-KV: blocks that share the keys of a tile"},
                     {"pack_gqa", {0, 1}, "whether the query heads of a KV head are rows of one tile"},
                     {"shared_layout",
                      {0, 1, 2, 3},
                      "K and V tiles: XOR swizzle, or rows or groups of elements with bank conflicts",
                      {"xor", "rows", "groups_16", "groups_8"}}},
      .constraints = flash_mma_constraints(),
      .resources =
          [](const Problem& p, const Config& c) {
            return LaunchResources{.shared_bytes = flash_mma_shared_bytes(p, c)};
          },
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{"attention_prefill/flash_mma.cu",
            "attention_prefill_flash_mma<{dtype}, " + kShape +
                ", {tile_m}, {tile_n}, {warps}, {stages}, {q_in_regs} == 1, {raster_order} == 1, {splits}, "
                "{packed_heads}, {shared_layout}>",
            flash_mma_launch},
           {"attention_prefill/split_kv_combine.cu",
            "attention_prefill_split_kv_combine<{dtype}, " + kShape + ", {splits}, 128>",
            split_kv_combine_launch, [](const Problem&, const Config& c) { return c["splits"] > 1; }}},
      .constants =
          [](const Problem& p, const Config& c) {
            Assignment constants = shape_constants(p, c);
            constants.set("packed_heads", packed_heads(p, c));
            return constants;
          },
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            const std::int64_t rows = p["batch"] * p["q_len"] * p["q_heads"];
            return c["splits"] > 1 ? c["splits"] * rows * (tile_dim(value_dim(p)) + 2) * 4 : 0;
          },
      .work_distribution =
          [](const Problem& p, const Config& c) {
            const std::int64_t heads = packed_heads(p, c);
            return work_tiles(p, {.tile_m = c["tile_m"],
                                  .tile_n = c["tile_n"],
                                  .swizzle = c["raster_order"] == 1 ? p["q_heads"] / heads : 1,
                                  .packed_heads = heads,
                                  .splits = c["splits"]});
          },
  };
}

}  // namespace

std::vector<Variant> attention_prefill_cuda() { return {unfused(), tiled(), mem_efficient(), flash_mma()}; }

}  // namespace warptune
