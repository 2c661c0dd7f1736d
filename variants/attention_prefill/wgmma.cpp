// The variant of attention_prefill for Hopper: TMA and wgmma (sm_90a).
#include <string>

#include "variants/attention_prefill/attention_prefill.h"
#include "variants/attention_prefill/problem.h"

namespace warptune {
namespace {

using namespace prefill;

/// TMA boxes of 64 elements by tile_m rows of one head.
TensorMapExpressions query_map() {
  return {.base = "q",
          .dims = {"head_dim", "q_heads", "tokens"},
          .strides = {"2 * head_dim", "2 * q_stride"},
          .box = {64, 1, "tile_m"},
          .swizzle = Swizzle::bytes_128};
}
/// K (`k`) or V (`v`): TMA boxes of 64 elements by tile_n rows. Rows that hold all heads are rows of one
/// tensor, so sequences of layout bshd must follow each other. Paged: by as many rows as divide tile_n and
/// the page (KvTmaLoader of tma_pipeline.cuh); the pool of pages may be larger than what the batch owns.
TensorMapExpressions cache_map(const std::string& tensor, const Expression& dim) {
  const Expression row = 2 * dim, strided = "kv_layout in [bshd, qkv]";
  return {.base = tensor + "_cache",
          .dims = {dim, "kv_layout != cache ? kv_heads : page_size > 0 ? page_size : capacity",
                   "kv_layout == bshd ? capacity * batch : kv_layout != cache ? capacity : "
                   "page_size > 0 ? 2 ^ 30 : batch * kv_heads"},
          .strides = {if_else(strided, 2 * Expression(tensor + "_strides.head"), row),
                      if_else(strided, 2 * Expression(tensor + "_strides.row"),
                              row * "kv_layout != cache ? kv_heads : page_size > 0 ? page_size : capacity")},
          .box = {64, "kv_layout != cache ? 1 : page_size > 0 ? gcd(page_size, tile_n) : tile_n",
                  "kv_layout != cache ? tile_n : 1"},
          .swizzle = Swizzle::bytes_128};
}

}  // namespace

std::vector<Variant> attention_prefill_wgmma() {
  // Registers of a thread: output, scores, P, bias.
  const auto registers = [](const Expression& tile_n) {
    return "value_dim / 2" + tile_n * "score_bias == additive ? 4 : 3" / 4;
  };
  return {{
      .name = "flash_wgmma",
      .idea = "FlashAttention-3: TMA producer warp, wgmma consumer warpgroups, ping-pong, persistent tiles",
      .parameters = {{"consumers", {1, 2, 3}, "consumer warpgroups, 64 queries each"},
                     {"tile_n", {32, 64, 80, 96, 128, 176}, "keys per K/V tile"},
                     {"stages", {1, 2, 3, 4}, "stages of the K and V pipelines"},
                     {"pingpong", {0, 1}, "ping-pong scheduling of the consumer warpgroups"},
                     {"l2_swizzle", {8, 32, 128}, "L2 swizzle: heads whose tiles are scheduled together"}},
      .derived = shape_values(
          {{"tile_m", "64 * consumers", "queries per tile"},
           // Whole swizzled matrices of 64 elements width.
           {"k_row_bytes", "128 * ceil_div(head_dim, 64)", "bytes of a row of Q and K in shared memory"},
           {"v_row_bytes", "128 * ceil_div(value_dim, 64)", "bytes of a row of V in shared memory"},
           {"shared_bytes",
            "2 * tile_m * max(k_row_bytes, v_row_bytes) + "
            "stages * tile_n * (k_row_bytes + v_row_bytes) + 512",
            "bytes of SharedStorage (tma_pipeline.cuh): two Q (or output) tiles, stages of K and V, "
            "barriers"},
           {"work_tiles", "batch * q_heads * ceil_div(q_len, tile_m)", "work tiles of the scheduler"},
           {"thread_registers", registers("tile_n"),
            "registers of a thread of the output, scores, P and the bias"},
           {"registers_of_64_keys", registers(64), "the same with tiles of 64 keys"},
           {"register_limit",
            "212 - 84 * (consumers == 3) - max(52 * (dropout > 0), 36 * (score_bias == additive))",
            "registers that masks, Philox and addresses leave"}}),
      .constraints = {"has_wgmma", "k_layout == sd", "head_dim % 16 == 0", "head_dim <= 256",
                      "value_dim % 16 == 0 && value_dim <= 256", "pingpong == 0 || consumers > 1",
                      "consumers > 1 || q_len <= 128", "stages > 1 || head_dim > 128",
                      "thread_registers <= register_limit",
                      "consumers < 3 || (score_bias == none && dropout == 0)",
                      // Small tiles only where no others fit the registers.
                      "tile_n >= 64 || (consumers < 3 && registers_of_64_keys > register_limit)",
                      "l2_swizzle == 8 || l2_swizzle < 4 * batch * q_heads"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "attention_prefill/flash_wgmma.cu",
                  .kernel = "attention_prefill_flash_wgmma<{dtype}, " + kShape +
                            ", {consumers}, {tile_n}, {stages}, {pingpong} == 1, {l2_swizzle}>",
                  // The consumer warpgroups and the producer.
                  .geometry = {.grid = {1},
                               .block = {"128 * (consumers + 1)"},
                               .shared_bytes = "shared_bytes",
                               .per_sm = 1,
                               .max_blocks = "work_tiles"},
                  .maps = {query_map(), cache_map("k", "head_dim"), cache_map("v", "value_dim")}}},
      .workspace = 4,  // the work counter
  }};
}

}  // namespace warptune
