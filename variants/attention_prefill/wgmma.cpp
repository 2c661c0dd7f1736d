// The variant of attention_prefill for Hopper: TMA and wgmma (sm_90a).
#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/attention_prefill/args.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"
#include "variants/attention_prefill/work_tiles.h"

namespace warptune {
namespace {

using namespace prefill;

std::int64_t tile_m(const Config& c) { return 64 * c["consumers"]; }
/// Bytes of a row of `dim` elements in shared memory: whole swizzled matrices of 64 elements width.
std::int64_t row_bytes(std::int64_t dim) { return 128 * ceil_div(dim, 64); }

/// SharedStorage of tma_pipeline.cuh: two Q (or output) tiles, stages of K and V; barriers and work tiles.
std::int64_t shared_bytes(const Problem& p, const Config& c) {
  const std::int64_t k_row = row_bytes(p["head_dim"]), v_row = row_bytes(value_dim(p));
  return 2 * tile_m(c) * std::max(k_row, v_row) + c["stages"] * c["tile_n"] * (k_row + v_row) + 512;
}

/// TMA boxes of 64 elements by tile_m rows of one head.
TensorMapSpec query_map(const Problem& p, const Config& c, const AttentionPrefillArgs& args) {
  const std::int64_t head = 2 * p["head_dim"];
  return {.base = args.q,
          .dtype = p.dtype,
          .dims = {p["head_dim"], p["q_heads"], args.tokens},
          .strides = {head, 2 * args.q_stride},
          .box = {64, 1, tile_m(c)}};
}
/// K (or V): TMA boxes of 64 elements by tile_n rows. Rows that hold all heads are rows of one tensor, so
/// sequences of layout bshd must follow each other. Paged: by as many rows as divide tile_n and the page
/// (KvTmaLoader of tma_pipeline.cuh); the pool of pages may be larger than what the batch owns.
TensorMapSpec cache_map(const Problem& p, const Config& c, const AttentionPrefillArgs& args, bool is_key) {
  const std::int64_t dim = is_key ? p["head_dim"] : value_dim(p), kv_heads = p["kv_heads"],
                     tile_n = c["tile_n"], page_size = p["page_size"], row = 2 * dim;
  TensorMapSpec map{.base = is_key ? args.k_cache : args.v_cache, .dtype = p.dtype};
  if (has_kv_strides(p)) {
    const auto& strided = static_cast<const StridedAttentionPrefillArgs&>(args);
    const KvStrides& strides = is_key ? strided.k_strides : strided.v_strides;
    map.dims = {dim, kv_heads, args.capacity * (packed(p) ? std::int64_t{1} : args.batch)};
    map.strides = {2 * strides.head, 2 * strides.row};
    map.box = {64, 1, tile_n};
  } else if (packed(p)) {
    map.dims = {dim, kv_heads, args.capacity};
    map.strides = {row, row * kv_heads};
    map.box = {64, 1, tile_n};
  } else if (page_size > 0) {
    map.dims = {dim, page_size, std::int64_t{1} << 30};
    map.strides = {row, row * page_size};
    map.box = {64, std::gcd(page_size, tile_n), 1};
  } else {
    map.dims = {dim, args.capacity, args.batch * kv_heads};
    map.strides = {row, row * args.capacity};
    map.box = {64, tile_n, 1};
  }
  return map;
}

}  // namespace

std::vector<Variant> attention_prefill_wgmma() {
  // Registers of a thread: output, scores, P, bias. The limit is what masks, Philox and addresses leave.
  const auto registers = [](const std::string& tile_n) {
    return kValueDim + " / 2 + " + tile_n + " * (score_bias == 1 ? 4 : 3) / 4";
  };
  const std::string limit = "212 - 84 * (consumers == 3) - max(52 * (dropout > 0), 36 * (score_bias == 1))";
  return {{
      .name = "flash_wgmma",
      .idea = "FlashAttention-3: TMA producer warp, wgmma consumer warpgroups, ping-pong, persistent tiles",
      .parameters = {{"consumers", {1, 2, 3}, "consumer warpgroups, 64 queries each"},
                     {"tile_n", {32, 64, 80, 96, 128, 176}, "keys per K/V tile"},
                     {"stages", {1, 2, 3, 4}, "stages of the K and V pipelines"},
                     {"pingpong", {0, 1}, "ping-pong scheduling of the consumer warpgroups"},
                     {"l2_swizzle", {8, 32, 128}, "L2 swizzle: heads whose tiles are scheduled together"}},
      .constraints = {"has_wgmma", "k_layout == 0", "head_dim % 16 == 0", "head_dim <= 256",
                      kValueDim + " % 16 == 0 && " + kValueDim + " <= 256", "pingpong == 0 || consumers > 1",
                      "consumers > 1 || q_len <= 128", "stages > 1 || head_dim > 128",
                      registers("tile_n") + " <= " + limit,
                      "consumers < 3 || (score_bias == 0 && dropout == 0)",
                      // Small tiles only where no others fit the registers.
                      "tile_n >= 64 || (consumers < 3 && " + registers("64") + " > " + limit + ")",
                      "l2_swizzle == 8 || l2_swizzle < 4 * batch * q_heads"},
      .resources = [](const Problem& p,
                      const Config& c) { return LaunchResources{.shared_bytes = shared_bytes(p, c)}; },
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"attention_prefill/flash_wgmma.cu",
                  "attention_prefill_flash_wgmma<{dtype}, " + kShape +
                      ", {consumers}, {tile_n}, {stages}, {pingpong} == 1, {l2_swizzle}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {1},
                                  .block = {as_unsigned(128 * (c["consumers"] + 1))},
                                  .shared_bytes = shared_bytes(p, c),
                                  .per_sm = true,
                                  .max_blocks = p["batch"] * p["q_heads"] * ceil_div(p["q_len"], tile_m(c))};
                  },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const AttentionPrefillArgs*>(raw);
                    return {query_map(p, c, args), cache_map(p, c, args, true), cache_map(p, c, args, false)};
                  }}},
      .constants = shape_constants,
      .workspace_bytes = [](const Problem&, const Config&) { return std::int64_t{sizeof(int)}; },
      .work_distribution =
          [](const Problem& p, const Config& c) {
            WorkDistribution work =
                work_tiles(p, {.tile_m = tile_m(c), .tile_n = c["tile_n"], .swizzle = c["l2_swizzle"]});
            work.tiles = static_cast<double>(p["batch"] * p["q_heads"] * ceil_div(p["q_len"], tile_m(c)));
            return work;
          },
  }};
}

}  // namespace warptune
