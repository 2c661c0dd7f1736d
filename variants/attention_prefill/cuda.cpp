// How attention_prefill runs on the GPU: an index of ideas in rising difficulty.
#include "attention_prefill/attention_prefill.h"

namespace warptune {

std::vector<Variant> attention_prefill_cuda() {
  const std::string no_features =
      "causal < 2 && (head_dim_v == 0 || head_dim_v == head_dim) && window == 0 && score_bias == 0 && "
      "dropout == 0 "
      "&& kv_layout == 0 && page_size == 0 && q_stride == 0 && lse == 0";
  const std::string heads = "{q_heads}, {kv_heads}, {head_dim}";
  const auto per_tile = [](std::int64_t columns, const Problem& p, const Config& c) {
    const auto tile = static_cast<unsigned>(c["tile"]);
    return Launch{.grid = {blocks_for(columns, tile), blocks_for(p["q_len"], tile),
                           static_cast<unsigned>(p["batch"] * p["q_heads"])},
                  .block = {tile, tile}};
  };
  return {
      {
          .name = "unfused",
          .idea = "scores, softmax and P.V as three kernels, scores in memory",
          .parameters = {{"tile", {8, 16, 32}, "queries and keys per block"},
                         {"block", {64, 128, 256, 512}, "threads per softmax row"}},
          .constraints = {"batch * q_heads * q_len * kv_len <= 4e9", no_features},
          .stages = {{"attention_prefill/unfused_scores.cu",
                      "attention_prefill_scores<{dtype}, " + heads + ", {q_len}, {kv_len}, {tile}>",
                      [=](const Problem& p, const Config& c) { return per_tile(p["kv_len"], p, c); }},
                     {"attention_prefill/unfused_softmax.cu",
                      "attention_prefill_softmax<{q_heads}, {causal} == 1, {q_len}, {kv_len}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {blocks_for(p["q_len"], 1), blocks_for(p["q_heads"], 1),
                                               blocks_for(p["batch"], 1)},
                                      .block = {static_cast<unsigned>(c["block"])}};
                      }},
                     {"attention_prefill/unfused_values.cu",
                      "attention_prefill_values<{dtype}, " + heads + ", {q_len}, {kv_len}, {tile}>",
                      [=](const Problem& p, const Config& c) { return per_tile(p["head_dim"], p, c); }}},
          .workspace_bytes =
              [](const Problem& p, const Config&) {
                return p["batch"] * p["q_heads"] * p["q_len"] * p["kv_len"] * 4;
              },
      },
      {
          .name = "tiled",
          .idea = "online softmax over tiles in shared memory, micro-tiles in registers, CUDA cores",
          .parameters = {{"tile_m", {16, 32, 64, 128}, "queries per block"},
                         {"tile_n", {16, 32, 64}, "keys per step"},
                         {"block", {64, 128, 256}, "threads per block"}},
          .constraints =
              {no_features, "tile_m * 16 >= block", "tile_m * 16 / block * (head_dim + 15 + tile_n) <= 2048",
               "4 * ((tile_m + tile_n) * (head_dim + 4) + tile_m * (tile_n + 1)) <= shared_per_block"},
          .stages = {{"attention_prefill/tiled.cu",
                      "attention_prefill_tiled<{dtype}, " + heads +
                          ", {causal} == 1, {tile_m}, {tile_n}, {block}>",
                      [](const Problem& p, const Config& c) {
                        const auto m = c["tile_m"], n = c["tile_n"], head_dim = p["head_dim"];
                        const auto stride = head_dim % 4 == 0 ? head_dim + 4 : head_dim | 1;
                        return Launch{
                            .grid = {blocks_for(p["q_len"], m) * static_cast<unsigned>(p["q_heads"]),
                                     static_cast<unsigned>(p["batch"])},
                            .block = {static_cast<unsigned>(c["block"])},
                            .shared_bytes = 4 * ((m + n) * stride + m * (n + 1))};
                      }}},
      },
      {
          .name = "flash_mma",
          .idea = "tensor cores, cp.async tiles in swizzled shared memory, scores in registers",
          .parameters = {{"tile_m", {64, 128}, "queries per block"},
                         {"tile_n", {32, 64, 128}, "keys per step"},
                         {"warps", {4, 8}, "warps per block, 16 or 32 queries each"},
                         {"stages", {1, 2, 3}, "key and value tiles in shared memory"},
                         {"head_first", {0, 1}, "neighbouring blocks: 0 tiles of one head, 1 heads"}},
          .constraints = {no_features, "head_dim % 16 == 0", "head_dim <= 256", "tile_m >= 16 * warps",
                          "tile_m / warps / 16 * (tile_n + head_dim) <= 384",
                          "(tile_m + 2 * stages * tile_n) * head_dim * 2 <= shared_per_block"},
          .dtypes = {DType::fp16, DType::bf16},
          .stages = {{"attention_prefill/flash_mma.cu",
                      "attention_prefill_flash_mma<{dtype}, " + heads +
                          ", {causal} == 1, {tile_m}, {tile_n}, {warps}, {stages}, {head_first} == 1>",
                      [](const Problem& p, const Config& c) {
                        const auto tiles = blocks_for(p["q_len"], c["tile_m"]);
                        return Launch{.grid = {tiles * static_cast<unsigned>(p["q_heads"]),
                                               static_cast<unsigned>(p["batch"])},
                                      .block = {static_cast<unsigned>(32 * c["warps"])},
                                      .shared_bytes =
                                          (c["tile_m"] + 2 * c["stages"] * c["tile_n"]) * p["head_dim"] * 2};
                      }}},
      },
  };
}

}  // namespace warptune
