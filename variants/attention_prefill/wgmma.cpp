// How attention_prefill runs on Hopper's own units: tensor memory accelerator and warpgroup products
// (sm_90a).
#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"
#include "attention_prefill/shape.h"

namespace warptune {
namespace {

using namespace prefill;

std::int64_t tile_m(const Config& c) { return 64 * c["consumers"]; }
/// Of a q, K or V row in shared memory: whole pieces of 64 elements.
std::int64_t row_bytes(const Problem& p) { return 128 * ceil_div(p["head_dim"], 64); }

/// Boxes of 64 elements of tile_m rows, of one head.
TensorMapSpec query_map(const Problem& p, const Config& c, const AttentionPrefillArgs& args) {
  const std::int64_t head = 2 * p["head_dim"];
  return {.base = args.q,
          .dtype = p.dtype,
          .dims = {p["head_dim"], p["q_heads"], args.tokens},
          .strides = {head, 2 * args.q_stride},
          .box = {64, 1, tile_m(c)}};
}
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
                     {"tile_n", {64, 80, 96, 128, 176}, "keys per step"},
                     {"stages", {1, 2, 3}, "key and value tiles in shared memory"},
                     {"queries", {1, 2}, "tiles of queries in shared memory"},
                     {"turns", {0, 1}, "warpgroups issue their products in turn"},
                     {"together", {8, 32}, "heads whose tiles run at the same time"},
                     // Measured once, the others never won (docs/tuning-notes.md); a sweep can name them.
                     {"lazy", {1}, "the output is rescaled only where a maximum grows by more than 2^8"},
                     {"poly", {0}, "every so many powers of two are polynomials; 0: none"}},
      .constraints = {"arch >= 90", "head_dim % 16 == 0", "head_dim <= 256",
                      "(head_dim_v == 0 || head_dim_v == head_dim) && score_bias == 0 && dropout == 0 && "
                      "kv_layout == 0 && page_size == 0",
                      "turns == 0 || consumers > 1", "consumers > 1 || q_len <= 128",
                      "stages > 1 || head_dim > 128", "stages < 3 || head_dim <= 64",
                      // registers: output, scores, probabilities
                      "head_dim / 2 + tile_n * 3 / 4 <= 212 - 72 * (consumers == 3)",
                      "(queries * 64 * consumers + 2 * stages * tile_n) * 128 * rint((head_dim + 31) / 64) + "
                      "256 <= shared_per_block",
                      "together <= batch * q_heads || together == 8"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"attention_prefill/flash_wgmma.cu",
                  "attention_prefill_flash_wgmma<{dtype}, " + kShape +
                      ", {consumers}, {tile_n}, {stages}, {queries}, {turns} == 1, {together}, "
                      "{lazy} == 1, {poly}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {1},
                        .block = {static_cast<unsigned>(128 * (c["consumers"] + 1))},
                        .shared_bytes =
                            (c["queries"] * tile_m(c) + 2 * c["stages"] * c["tile_n"]) * row_bytes(p) + 256,
                        .per_sm = true};
                  },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const AttentionPrefillArgs*>(raw);
                    return {query_map(p, c, args), cache_map(p, c, args, args.k_cache),
                            cache_map(p, c, args, args.v_cache)};
                  }}},
      .constants = shape_constants,
      .workspace_bytes = [](const Problem&, const Config&) { return std::int64_t{sizeof(int)}; },
  }};
}

}  // namespace warptune
