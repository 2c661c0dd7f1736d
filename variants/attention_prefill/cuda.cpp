// How attention_prefill runs on the GPU: an index of ideas in rising difficulty.
#include <algorithm>

#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/pieces.h"
#include "variants/attention_prefill/shape.h"

namespace warptune {
namespace {

using namespace prefill;

unsigned as_unsigned(std::int64_t n) { return static_cast<unsigned>(n); }

/// In constraints: elements of the longer one of a K and a V row.
const std::string kLongerDim = "max(head_dim, head_dim_v)";

/// Blocks for `tile` queries of every head.
Launch per_query_tile(const Problem& p, std::int64_t tile, std::int64_t threads, std::int64_t shared_bytes) {
  return {.grid = {blocks_for(p["q_len"], tile) * as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
          .block = {as_unsigned(threads)},
          .shared_bytes = shared_bytes};
}

Variant unfused() {
  const auto per_tile = [](std::int64_t columns, const Problem& p, const Config& c) {
    const auto tile = as_unsigned(c["tile"]);
    return Launch{.grid = {blocks_for(columns, tile), blocks_for(p["q_len"], tile),
                           as_unsigned(p["batch"] * p["q_heads"])},
                  .block = {tile, tile}};
  };
  const std::string lengths = ", {q_len}, {kv_len}, ";
  return {
      .name = "unfused",
      .idea = "scores, softmax and P.V as three kernels, scores in memory",
      .parameters = {{"tile", {8, 16, 32}, "queries and keys per block"},
                     {"block", {64, 128, 256, 512}, "threads per softmax row"}},
      .constraints = {"batch * q_heads * q_len * kv_len <= 4e9"},
      .stages = {{"attention_prefill/unfused_scores.cu",
                  "attention_prefill_scores<{dtype}, " + kShape + lengths + "{tile}>",
                  [=](const Problem& p, const Config& c) { return per_tile(p["kv_len"], p, c); }},
                 {"attention_prefill/unfused_softmax.cu",
                  "attention_prefill_softmax<{dtype}, " + kShape + lengths + "{block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {as_unsigned(p["q_len"]), as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                        .block = {as_unsigned(c["block"])}};
                  }},
                 {"attention_prefill/unfused_values.cu",
                  "attention_prefill_values<{dtype}, " + kShape + lengths + "{tile}>",
                  [=](const Problem& p, const Config& c) { return per_tile(value_dim(p), p, c); }}},
      .constants = shape_constants,
      .workspace_bytes =
          [](const Problem& p, const Config&) {
            return p["batch"] * p["q_heads"] * p["q_len"] * p["kv_len"] * 4;
          },
  };
}

Variant tiled() {
  return {
      .name = "tiled",
      .idea = "online softmax over tiles in shared memory, micro-tiles in registers, CUDA cores",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "queries per block"},
                     {"tile_n", {16, 32, 64}, "keys per step"},
                     {"block", {64, 128, 256}, "threads per block"}},
      .constraints = {"tile_m * 16 >= block",
                      "tile_m * 16 / block * (" + kValueDim + " + 15 + tile_n) <= 2048",
                      "4 * (tile_m * (head_dim + 4) + tile_n * (" + kLongerDim +
                          " + 4) + tile_m * (tile_n + 1)) <= shared_per_block"},
      .stages = {{"attention_prefill/tiled.cu",
                  "attention_prefill_tiled<{dtype}, " + kShape + ", {tile_m}, {tile_n}, {block}>",
                  [](const Problem& p, const Config& c) {
                    const auto m = c["tile_m"], n = c["tile_n"];
                    const auto stride = [](std::int64_t d) { return d % 4 == 0 ? d + 4 : d | 1; };
                    const auto k = stride(p["head_dim"]), v = stride(value_dim(p));
                    return per_query_tile(p, m, c["block"], 4 * (m * k + n * std::max(k, v) + m * (n + 1)));
                  }}},
      .constants = shape_constants,
  };
}

Variant mem_efficient() {
  const std::string shared =
      "dtype_bytes * (queries * head_dim + keys * (head_dim + " + kValueDim + ") + queries * keys)";
  return {
      .name = "mem_efficient",
      .idea = "PyTorch's memory-efficient attention: warps share rows of scores, weights in shared memory",
      .parameters = {{"queries", {32, 64, 128}, "queries per block"},
                     {"keys", {32, 64, 128}, "keys per step"},
                     {"warps_m", {1, 2, 4}, "warps that share the queries"},
                     {"warps_n", {2, 4}, "warps that share the keys"},
                     {"accumulator", {0, 1}, "where the output is summed up", {"registers", "memory"}},
                     {"blocks", {1, 2, 3, 4}, "blocks per multiprocessor that registers are made to do for"}},
      .constraints = {"head_dim % 16 == 0 && " + kValueDim + " % 16 == 0 && " + kLongerDim + " <= 256",
                      // A warp's piece of scores: 16 or 32 queries, 16 to 64 keys, 1024 scores or more.
                      "queries <= 32 * warps_m && queries >= 16 * warps_m",
                      "keys <= 64 * warps_n && keys >= 16 * warps_n",
                      "queries * keys >= 1024 * warps_m * warps_n || queries == 32",
                      // Registers: scores, the output (32 of its columns where it is in memory), copies.
                      "queries / warps_m * (keys / warps_n + (accumulator == 1 ? 32 : " + kValueDim +
                          " / warps_n)) / 32 + keys * " + kLongerDim +
                          " * dtype_bytes / 256 / warps_m / warps_n + 56 + (dtype_bytes == 4 ? 32 : 0) + "
                          "(dropout > 0 || score_bias > 0 ? 16 : 0) < "
                          "min(200, 1984 / (blocks * warps_m * warps_n))",
                      // 8 to 16 warps on a multiprocessor.
                      "blocks * warps_m * warps_n <= 16",
                      "blocks * warps_m * warps_n >= 8 || blocks == 4 || (blocks + 1) * (" + shared +
                          ") > shared_per_block",
                      "blocks == 1 || blocks * (" + shared + " + 4 * warps_n * queries) <= shared_per_block",
                      "accumulator == 0 || " + kValueDim + " >= 128", "queries < 2 * q_len || queries == 32",
                      shared + " + 4 * warps_n * queries <= shared_per_block"},
      .stages = {{"attention_prefill/mem_efficient.cu",
                  "attention_prefill_mem_efficient<{dtype}, " + kShape +
                      ", {queries}, {keys}, {warps_m}, {warps_n}, {accumulator} == 1, {blocks}>",
                  [](const Problem& p, const Config& c) {
                    const auto m = c["queries"], n = c["keys"], d = p["head_dim"];
                    const auto elements = m * d + n * (d + value_dim(p)) + m * n;
                    return per_query_tile(
                        p, m, 32 * c["warps_m"] * c["warps_n"],
                        static_cast<std::int64_t>(size_of(p.dtype)) * elements + 4 * c["warps_n"] * m);
                  }}},
      .constants = shape_constants,
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            return c["accumulator"] * p["batch"] * p["q_len"] * p["q_heads"] * value_dim(p) * 4;
          },
  };
}

Variant flash_mma() {
  // Query heads that share keys can be rows of one tile.
  const std::string packable = "(q_heads > kv_heads && q_len <= 64 && score_bias == 0 && dropout == 0)",
                    rows = "(pack == 1 ? q_len * q_heads / kv_heads : q_len)",
                    blocks = "batch * (pack == 1 ? kv_heads : q_heads) * max(1, " + rows + " / tile_m)",
                    registers = "tile_m / warps / 16 * (tile_n + " + kValueDim +
                                " + hold_q * head_dim / 2) + tile_n * " + kLongerDim + " / 128 / warps";
  const auto heads_per_tile = [](const Problem& p, const Config& c) {
    return c["pack"] == 1 ? p["q_heads"] / p["kv_heads"] : 1;
  };
  return {
      .name = "flash_mma",
      .idea = "tensor cores, cp.async tiles in swizzled shared memory, scores in registers",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "queries per block"},
                     {"tile_n", {16, 32, 64, 128, 256}, "keys per step"},
                     {"warps", {1, 2, 4, 8}, "warps per block, 16 or 32 queries each"},
                     {"stages", {1, 2, 3, 4}, "key and value tiles in shared memory"},
                     {"hold_q", {0, 1}, "where the fragments of q are", {"shared", "registers"}},
                     {"head_first", {0, 1}, "neighbouring blocks: 0 tiles of one head, 1 heads"},
                     {"splits", {1, 2, 4, 8, 16, 32, 64}, "blocks that share the keys"},
                     {"pack",
                      {0, 1},
                      "rows of a tile: queries of one head, or of all heads that see the same keys"}},
      .constraints =
          {
              "head_dim % 16 == 0 && " + kValueDim + " % 16 == 0 && " + kLongerDim + " <= 256",
              "tile_m >= 16 * warps && tile_m <= 32 * warps",
              "warps >= 4 || tile_m <= 32",
              // Registers of scores, output and q, and of the copies; what the rest of the kernel leaves.
              registers + " <= (" + kLongerDim +
                  " % 64 == 0 && dropout + score_bias + page_size + pack == 0 ? 400 : 336) - (stages == 1 ? "
                  "64 : 0) "
                  "- (stages == 4 ? 16 : 0) - (dropout > 0 ? 32 : 0) - (score_bias > 0 ? 48 : 0) - "
                  "(page_size > 0 ? 16 : 0)",
              // Long tiles that the compiler cannot keep in registers on sm_80.
              "arch >= 90 || tile_n < 128 || " + registers + " < 336",
              "(tile_m * " + kLongerDim + " + stages * tile_n * (head_dim + " + kValueDim +
                  ")) * 2 <= shared_per_block",
              // Tiles of 64 and 128 queries where there are as many, smaller ones for few queries.
              "tile_m < 2 * " + rows + " || tile_m == 16",
              "tile_m >= 64 || " + rows + " <= 2 * tile_m",
              // Short key tiles only where heads are large or pages short.
              "tile_n >= 32 || " + kLongerDim +
                  " >= 192 || kv_len <= 64 || (page_size == 16 && stages == 4 && hold_q == 1)",
              "tile_n < 2 * kv_len || tile_n == 16",
              "tile_n <= 128 || stages <= 2",
              // Bytes in flight where blocks are small.
              "stages <= 2 || tile_n <= 64",
              // Splits for few queries: what fills the device, twice at most.
              "splits == 1 || q_len <= 64",
              "splits == 1 || hold_q == 1 || head_dim > 128",
              "splits == 1 || kv_len >= splits * 128",
              "splits <= 2 || " + blocks + " * splits * warps <= 16 * sms",
              "splits == 1 || " + blocks + " * splits * warps >= 2 * sms || kv_len < splits * 256",
              "head_first == 0 || (" + rows + " > tile_m && splits == 1)",
              "pack == 0 || " + packable,
              "pack == 1 || !" + packable + " || (hold_q == 1 && stages == 2)",
          },
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"attention_prefill/flash_mma.cu",
                  "attention_prefill_flash_mma<{dtype}, " + kShape +
                      ", {tile_m}, {tile_n}, {warps}, {stages}, {hold_q} == 1, {head_first} == 1, {splits}, "
                      "{heads_per_tile}>",
                  [=](const Problem& p, const Config& c) {
                    const auto d = p["head_dim"], v = value_dim(p), m = c["tile_m"],
                               pack = heads_per_tile(p, c);
                    Launch launch =
                        per_query_tile(p, m, 32 * c["warps"],
                                       2 * (m * std::max(d, v) + c["stages"] * c["tile_n"] * (d + v)));
                    launch.grid.x = blocks_for(p["q_len"] * pack, m) * as_unsigned(p["q_heads"] / pack);
                    launch.grid.z = as_unsigned(c["splits"]);
                    return launch;
                  }},
                 {"attention_prefill/combine.cu",
                  "attention_prefill_combine<{dtype}, " + kShape + ", {splits}, 128>",
                  [](const Problem& p, const Config&) {
                    return Launch{
                        .grid = {as_unsigned(p["q_len"]), as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                        .block = {128}};
                  },
                  [](const Problem&, const Config& c) { return c["splits"] > 1; }}},
      .constants =
          [=](const Problem& p, const Config& c) {
            Assignment constants = shape_constants(p, c);
            constants.set("heads_per_tile", heads_per_tile(p, c));
            return constants;
          },
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            const std::int64_t rows = p["batch"] * p["q_len"] * p["q_heads"];
            return c["splits"] > 1 ? c["splits"] * rows * (value_dim(p) + 2) * 4 : 0;
          },
      .work_distribution =
          [=](const Problem& p, const Config& c) {
            const std::int64_t pack = heads_per_tile(p, c);
            return scheduled_tiles(p, {.tile_m = c["tile_m"],
                                       .tile_n = c["tile_n"],
                                       .together = c["head_first"] == 1 ? p["q_heads"] / pack : 1,
                                       .pack = pack,
                                       .splits = c["splits"]});
          },
  };
}

}  // namespace

std::vector<Variant> attention_prefill_cuda() { return {unfused(), tiled(), mem_efficient(), flash_mma()}; }

}  // namespace warptune
