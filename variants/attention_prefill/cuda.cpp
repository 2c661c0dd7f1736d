// Variants of attention_prefill on the GPU, in rising difficulty. wgmma.cpp has the one for Hopper.
#include <utility>

#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"
#include "variants/helpers/streaming.h"

namespace warptune {
namespace {

using namespace prefill;

/// Derived values of the tensor-core kernels: the columns of their tiles (tile_dim.h).
std::vector<DerivedValue> tile_values(std::vector<DerivedValue> more) {
  more.insert(more.begin(),
              {{"k_tile_dim", "16 * ceil_div(head_dim, 16)", "columns of a tile of Q and of K"},
               {"v_tile_dim", "16 * ceil_div(value_dim, 16)", "columns of a tile of V and of the output"},
               {"wider_tile_dim", "max(k_tile_dim, v_tile_dim)", "columns of the wider tile"}});
  return shape_values(std::move(more));
}
const Expression kHeadDimLimit = "max(head_dim, value_dim) <= 256";

/// One block per tile of tile_m queries of a head.
LaunchExpressions query_tile_launch(const Expression& threads) {
  return {.grid = {"ceil_div(q_len, tile_m) * q_heads", "batch"},
          .block = {threads},
          .shared_bytes = "shared_bytes"};
}
/// All shared memory is dynamic.
const ResourceExpressions kLimits{.shared_bytes = "shared_bytes"};

Variant unfused() {
  const std::string lengths = ", {q_len}, {kv_len}, ";
  // A block per tile of the rows of Q or of the output that are `columns` wide.
  const auto tile_launch = [](const Expression& columns) {
    return LaunchExpressions{.grid = {ceil_div(columns, "tile") * "ceil_div(q_len, tile) * batch * q_heads"},
                             .block = {"tile", "tile"}};
  };
  return {
      .name = "unfused",
      .idea = "unfused: Q.K^T, softmax and P.V as three kernels, scores in global memory",
      .parameters = {{"tile", {8, 16, 32}, "GEMM tile: rows and columns per block"},
                     {"block", {64, 128, 256, 512}, "threads per row of the softmax"}},
      .derived = shape_values({{"scores", "batch * q_heads * q_len * kv_len", "scores of all heads"}}),
      .constraints = {"scores <= 4e9"},
      .stages = {{.file = "attention_prefill/unfused.cu",
                  .kernel = "attention_prefill_scores<{dtype}, " + kShape + lengths + "{tile}>",
                  .geometry = tile_launch("kv_len")},
                 {.file = "attention_prefill/unfused.cu",
                  .kernel = "attention_prefill_softmax<{dtype}, " + kShape + lengths + "{block}>",
                  .geometry = row_launch("batch * q_heads * q_len")},
                 {.file = "attention_prefill/unfused.cu",
                  .kernel = "attention_prefill_values<{dtype}, " + kShape + lengths + "{tile}>",
                  .geometry = tile_launch("value_dim")}},
      .workspace = "4 * scores",
  };
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
      .derived =
          shape_values({{"k_stride", "head_dim + (head_dim % 4 == 0 ? 4 : 1 - head_dim % 2)",
                         "words of a padded row of Q and K"},
                        {"v_stride", "value_dim + (value_dim % 4 == 0 ? 4 : 1 - value_dim % 2)",
                         "words of a padded row of V"},
                        {"shared_bytes",
                         "4 * (tile_m * k_stride + tile_n * max(k_stride, v_stride) + tile_m * (tile_n + 1))",
                         "bytes of shared memory: Q tile, one tile for K and V, P tile, in fp32"}}),
      .constraints = {"tile_m * 16 >= block",
                      // Registers of the micro-tiles of scores and output.
                      "tile_m * 16 / block * (value_dim + 15 + tile_n) <= 2048"},
      .limits = kLimits,
      .stages = {{.file = "attention_prefill/tiled.cu",
                  .kernel = "attention_prefill_tiled<{dtype}, " + kShape + ", {tile_m}, {tile_n}, {block}>",
                  .geometry = query_tile_launch("block")}},
  };
}

std::vector<Expression> mem_efficient_constraints() {
  return {kHeadDimLimit,
          // The score tile of a warp: 16 or 32 queries, 16 to 64 keys, 1024 scores or more.
          "16 * warps_m <= tile_m <= 32 * warps_m", "16 * warps_n <= tile_n <= 64 * warps_n",
          "tile_m * tile_n >= 1024 * warps_m * warps_n || tile_m == 32",
          "thread_registers < min(200, 1984 / (min_blocks_per_sm * warps_m * warps_n))",
          // 8 to 16 warps per SM, fewer where shared memory allows no further block.
          "min_blocks_per_sm * warps_m * warps_n <= 16",
          "min_blocks_per_sm * warps_m * warps_n >= 8 || min_blocks_per_sm == 4 || "
          "(min_blocks_per_sm + 1) * tile_bytes > shared_per_block",
          "min_blocks_per_sm == 1 || min_blocks_per_sm * shared_bytes <= shared_per_block",
          "accumulator == registers || v_tile_dim >= 128", "tile_m < 2 * q_len || tile_m == 32",
          // A pipeline needs shared memory and hides latency itself, instead of more blocks per SM.
          "stages == 1 || (min_blocks_per_sm <= 2 && tile_n <= 64 && accumulator == registers && "
          "kv_len > tile_n)",
          // TF32 only where the problem allows it; 3xTF32 has the accuracy of fp32.
          "math == cuda_cores || dtype_bytes == 4", "(math == tf32) == (precision == tf32)",
          "math == cuda_cores || accumulator == registers || wider_tile_dim > 128"};
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
      .derived = tile_values(
          {{"tile_bytes",
            "dtype_bytes * "
            "(tile_m * k_tile_dim + stages * tile_n * (k_tile_dim + v_tile_dim) + tile_m * tile_n)",
            "bytes of the Q tile, of the stages of K and V tiles and of the P tile"},
           {"shared_bytes", "tile_bytes + 4 * warps_n * tile_m",
            "bytes of shared memory: tiles, a float per row and warp column"},
           // Output: 32 columns of it where it is in memory; in 3xTF32 also that of a tile.
           {"output_columns",
            "(accumulator == memory ? 32 : v_tile_dim / warps_n) * (math == tf32x3 ? 2 : 1)",
            "columns of the output that a warp holds in registers"},
           {"thread_registers",
            "tile_m / warps_m * (tile_n / warps_n + output_columns) / 32 + "
            "tile_n * wider_tile_dim * dtype_bytes / 256 / warps_m / warps_n + 56 + "
            "(dtype_bytes == 4 && math == cuda_cores ? 32 : 0) + "
            "(dropout > 0 || score_bias != none ? 16 : 0) + (head_dim % 16 + head_dim_v % 16 > 0 ? 24 : 0)",
            "registers per thread, an estimate: scores, output, loads, everything else"}}),
      .constraints = mem_efficient_constraints(),
      .limits = kLimits,
      .stages = {{.file = "attention_prefill/mem_efficient.cu",
                  .kernel =
                      "attention_prefill_mem_efficient<{dtype}, " + kShape +
                      ", {tile_m}, {tile_n}, {warps_m}, {warps_n}, {accumulator} == 1, {min_blocks_per_sm}, "
                      "{stages}, {math}>",
                  .geometry = query_tile_launch("32 * warps_m * warps_n")}},
      .workspace = "accumulator == memory ? batch * q_len * q_heads * v_tile_dim * 4 : 0",
  };
}

std::vector<Expression> flash_mma_constraints() {
  return {
      kHeadDimLimit,
      "16 * warps <= tile_m <= 32 * warps",
      "warps >= 4 || tile_m <= 32",
      "thread_registers <= register_limit",
      // ptxas spills these long tiles on sm_80.
      "arch >= 90 || tile_n < 128 || thread_registers < 336",
      // tile_m of 64 and 128 where there are as many rows, smaller ones for few rows.
      "tile_m < 2 * packed_rows || tile_m == 16",
      "tile_m >= 64 || packed_rows <= 2 * tile_m",
      // Small tile_n only where heads are large or pages short.
      "tile_n >= 32 || max(head_dim, value_dim) >= 192 || kv_len <= 64 || "
      "(page_size == 16 && stages == 4 && q_in_regs == 1)",
      "tile_n < 2 * kv_len || tile_n == 16",
      "tile_n <= 128 || stages <= 2",
      // Deep pipelines only of small tiles.
      "stages <= 2 || tile_n <= 64",
      // Split-KV for few queries: up to 16 warps per SM.
      "splits == 1 || q_len <= 64",
      "splits == 1 || q_in_regs == 1 || head_dim > 128",
      "splits == 1 || kv_len >= splits * 128",
      "splits <= 2 || tiles * splits * warps <= 16 * sms",
      "splits == 1 || tiles * splits * warps >= 2 * sms || kv_len < splits * 256",
      "raster_order == along_m || (packed_rows > tile_m && splits == 1)",
      "pack_gqa == 0 || can_pack_gqa",
      "pack_gqa == 1 || !can_pack_gqa || (q_in_regs == 1 && stages == 2)",
      // The other layouts show what bank conflicts cost; none is faster than the XOR swizzle.
      "shared_layout == xor || (tile_m == 64 && tile_n == 64 && warps == 4 && raster_order == along_m && "
      "splits == 1 && pack_gqa == 0 && page_size == 0)",
  };
}

std::vector<DerivedValue> flash_mma_values() {
  return tile_values(
      {{"packed_heads", "pack_gqa ? q_heads / kv_heads : 1", "query heads that are rows of one tile"},
       {"can_pack_gqa", "q_heads > kv_heads && q_len <= 64 && score_bias == none && dropout == 0",
        "whether the kernel can pack the query heads of a KV head"},
       {"packed_rows", "q_len * packed_heads", "rows of the tiles of a KV head or query head"},
       {"tiles", "batch * q_heads / packed_heads * max(1, packed_rows / tile_m)",
        "tiles of all heads, not rounded"},
       {"shared_bytes", "2 * (tile_m * wider_tile_dim + stages * tile_n * (k_tile_dim + v_tile_dim))",
        "bytes of shared memory: the Q (or output) tile, and the stages of K and V tiles"},
       {"thread_registers",
        "tile_m / warps / 16 * (tile_n + v_tile_dim + q_in_regs * k_tile_dim / 2) + "
        "tile_n * wider_tile_dim / 128 / warps",
        "registers of scores, output and Q fragments, and of loads"},
       {"is_plain",
        "wider_tile_dim % 64 == 0 && dropout == 0 && score_bias == none && page_size == 0 && "
        "pack_gqa == 0 && k_layout == sd",
        "whether addresses and scores need no registers of their own"},
       {"register_limit",
        "(is_plain ? 400 : 336) - (stages == 1 ? 64 : 0) - (stages == 4 ? 16 : 0) - (dropout > 0 ? 32 : 0) - "
        "(score_bias != none ? 48 : 0) - (page_size > 0 || k_layout == dsx ? 16 : 0)",
        "registers that everything else leaves"}});
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
      .derived = flash_mma_values(),
      .constraints = flash_mma_constraints(),
      .limits = kLimits,
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{.file = "attention_prefill/flash_mma.cu",
            .kernel =
                "attention_prefill_flash_mma<{dtype}, " + kShape +
                ", {tile_m}, {tile_n}, {warps}, {stages}, {q_in_regs} == 1, {raster_order} == 1, {splits}, "
                "{packed_heads}, {shared_layout}>",
            .geometry = {.grid = {"ceil_div(packed_rows, tile_m) * (q_heads / packed_heads)", "batch",
                                  "splits"},
                         .block = {"32 * warps"},
                         .shared_bytes = "shared_bytes"}},
           {.file = "attention_prefill/split_kv_combine.cu",
            .kernel = "attention_prefill_split_kv_combine<{dtype}, " + kShape + ", {splits}, 128>",
            .geometry = {.grid = {"q_len", "q_heads", "batch"}, .block = {128}},
            .condition = "splits > 1"}},
      .workspace = "splits > 1 ? splits * batch * q_len * q_heads * (v_tile_dim + 2) * 4 : 0",
  };
}

}  // namespace

std::vector<Variant> attention_prefill_cuda() { return {unfused(), tiled(), mem_efficient(), flash_mma()}; }

}  // namespace warptune
