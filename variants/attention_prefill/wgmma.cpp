// How attention_prefill runs on Hopper's own units: tensor memory accelerator and warpgroup products
// (sm_90a).
#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"

namespace warptune {
namespace {

std::int64_t tile_m(const Config& c) { return 64 * c["consumers"]; }
std::int64_t items(const Problem& p, const Config& c) {
  return ceil_div(p["q_len"], tile_m(c)) * p["q_heads"] * p["batch"];
}
/// Of a q row in shared memory: whole pieces of 64 elements.
std::int64_t row_bytes(const Problem& p) { return 128 * ceil_div(p["head_dim"], 64); }

/// K or V, whose boxes are tile_n rows of 64 elements.
TensorMapSpec cache_map(const Problem& p, const Config& c, const AttentionPrefillArgs& args,
                        const void* cache) {
  const std::int64_t row = 2 * p["head_dim"];
  return {.base = cache,
          .dtype = p.dtype,
          .dims = {p["head_dim"], args.capacity, args.batch * p["kv_heads"]},
          .strides = {row, row * args.capacity},
          .box = {64, c["tile_n"], 1}};
}

}  // namespace

std::vector<Variant> attention_prefill_wgmma() {
  return {{
      .name = "flash_wgmma",
      .idea = "warp specialisation: tensor copies by one warpgroup, warpgroup products by the others",
      .parameters = {{"consumers", {1, 2, 3}, "warpgroups that compute, 64 queries each"},
                     {"tile_n", {64, 80, 96, 128, 160, 176, 192}, "keys per step"},
                     {"stages", {1, 2, 3, 4}, "key and value tiles in shared memory"},
                     {"turns", {0, 1}, "warpgroups issue their products in turn"},
                     {"persistent", {0, 1}, "blocks: 0 one per tile of queries, 1 one per multiprocessor"},
                     {"together", {1, 8, 32}, "heads whose tiles run at the same time"}},
      .constraints =
          {"causal < 2 && (head_dim_v == 0 || head_dim_v == head_dim) && window == 0 && score_bias == 0 "
           "&& dropout == 0 && kv_layout == 0 && page_size == 0 && q_stride == 0 && lse == 0",
           "arch >= 90", "head_dim % 16 == 0", "head_dim <= 256", "turns == 0 || consumers > 1",
           // registers: output, scores, probabilities
           "head_dim / 2 + tile_n * 3 / 4 <= 212 - 72 * (consumers == 3)",
           "(64 * consumers + 2 * stages * tile_n) * 128 * rint((head_dim + 31) / 64) + 256 <= "
           "shared_per_block",
           "together == 1 || together <= batch * q_heads || together == 8"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"attention_prefill/flash_wgmma.cu",
                  "attention_prefill_flash_wgmma<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {causal} == 1, "
                  "{tiles_m}, {consumers}, {tile_n}, {stages}, {turns} == 1, {together}>",
                  [](const Problem& p, const Config& c) {
                    const bool persistent = c["persistent"] == 1;
                    return Launch{
                        .grid = {persistent ? 1u : static_cast<unsigned>(items(p, c))},
                        .block = {static_cast<unsigned>(128 * (c["consumers"] + 1))},
                        .shared_bytes = (tile_m(c) + 2 * c["stages"] * c["tile_n"]) * row_bytes(p) + 256,
                        .per_sm = persistent};
                  },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const AttentionPrefillArgs*>(raw);
                    return {cache_map(p, c, args, args.k_cache), cache_map(p, c, args, args.v_cache)};
                  }}},
      .constants =
          [](const Problem& p, const Config& c) {
            return Assignment{{"tiles_m", ceil_div(p["q_len"], tile_m(c))}};
          },
  }};
}

}  // namespace warptune
