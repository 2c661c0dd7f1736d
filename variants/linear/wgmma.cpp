// The GEMMs of linear for Hopper, TMA and wgmma (sm_90a): wgmma for prompts, wgmma_streaming for 2 to 64
// tokens.
#include "kernels/linear/args.h"
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

Variant prompts() {
  return {
      .name = "wgmma",
      .idea = "Prompts on Hopper: persistent GEMM, TMA producer warp, cooperative wgmma consumer warpgroups.",
      .parameters = {{"tile_m", {128, 256}, "tokens of a work tile"},
                     {"tile_n", {64, 128, 144, 160, 192, 224, 240, 256}, "weight rows of a work tile"},
                     {"stages", {3, 4, 5, 6, 8}, "stages of the pipeline, 64 columns each"},
                     {"cluster", {1, 2}, "blocks that share a weight tile by multicast"},
                     {"group_m", {4, 8, 16}, "L2 swizzle: clusters along the tokens that run together"},
                     pdl_parameter()},
      .derived = {kWeightRows,
                  {"outputs", "epilogue == swiglu ? tile_n / 2 : tile_n", "outputs of a work tile"},
                  // A cluster takes adjacent token tiles.
                  {"blocks", "ceil_div(tokens, tile_m * cluster) * ceil_div(out, outputs) * cluster",
                   "blocks that have work of their own"},
                  {"shared_bytes", "stages * 128 * (tile_m + tile_n) + 16 * stages",
                   "bytes of the stages of 64 columns of x and weight, and of their barriers"}},
      .constraints = {"has_wgmma", "tokens > 64", "prologue == none", "epilogue in [none, add, swiglu]",
                      "in >= 64 && in % 8 == 0", "out % 8 == 0",
                      // Accumulators of a thread: 128, or 192 without a residual.
                      "tile_m * tile_n <= (epilogue == add ? 32768 : 49152)",
                      // Both halves of a weight tile are pairs of octets.
                      "epilogue != swiglu || tile_n % 32 == 0",
                      // Few tokens take small tiles.
                      "tile_m * cluster < tokens + 128",
                      // 147 KB of stages, and groups that differ.
                      "stages * (tile_m + tile_n) >= 1152 || stages == 8",
                      "group_m == 4 || (group_m / 2) * tile_m * cluster < tokens"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/wgmma.cu",
                  .kernel = "linear_wgmma<{dtype}, {in}, {out}, {bias}, {epilogue}, {tile_m}, {tile_n}, "
                            "{stages}, {cluster}, {group_m}>",
                  .geometry = persistent_gemm(),
                  .maps = {matrix_map("weight", "weight_rows", "tile_n / 2"),
                           matrix_map("x", "tokens", "tile_m")}}},
  };
}

Variant few_tokens() {
  return {
      .name = "wgmma_streaming",
      .idea =
          "2 to 64 tokens on Hopper: persistent blocks stream weights by TMA to wgmma, as its M operand; a "
          "cluster splits K or shares x.",
      .parameters =
          {{"rows",
            {32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112, 120, 128, 136, 144,
             152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256},
            "weight rows of a work tile"},
           {"tile_k", {64, 128}, "columns of a stage"},
           {"stages", {3, 4, 5, 6, 7, 8, 10, 12, 15, 16}, "stages of the pipeline"},
           {"warpgroups", {1, 2, 3, 4}, "consumer warpgroups along the weight rows"},
           {"cluster_k", {1, 2}, "blocks that split K"},
           {"cluster_m", {1, 2, 4}, "blocks of adjacent work tiles that share x by multicast"},
           {"evict_first", {1, 0}, "weights leave the L2 first"},
           {"persistent",
            {1, 0},
            "a block per SM computes several work tiles; 0: a block per work tile, two at a time per SM"},
           {.name = "early_stages",
            .values = {0, 2, 4, 6, 10},
            .doc = "stages whose weights are loaded before the dependency, and so before x; 0: all",
            .in_step_only = true},
           prefetch_parameter(),
           late_prefetch_parameter(),
           pdl_parameter()},
      .derived =
          {kWeightRows,
           {"padded_tokens", "16 * ceil_div(tokens, 16)", "tokens of the wgmma, its N"},
           {"rows_per_output", "epilogue == swiglu ? 2 : 1", "weight rows of an output"},
           {"outputs", "rows / rows_per_output", "outputs of a work tile"},
           {"subtiles", "ceil_div(outputs, 64)", "m64 tiles of the outputs"},
           {"tiles", "ceil_div(out, outputs)", "work tiles"},
           {"adds_squares", "prologue == rms_scale", "whether a warpgroup adds squares"},
           {"stage_bytes", "2 * tile_k * (rows + padded_tokens)", "bytes of a stage"},
           // What the last m64 tile reads beyond the stages, barriers, scales.
           {"shared_bytes",
            "stages * stage_bytes + 128 * (64 * subtiles - outputs) + 16 * stages + (adds_squares ? 4 * "
            "padded_tokens : 0)",
            "bytes of StreamingWgmma's storage"},
           {"blocks", "ceil_div(tiles, cluster_m) * cluster_k * cluster_m", "blocks that have work"},
           // With split K a block has one work tile, also where a second wave is needed.
           {"is_persistent", "cluster_k == 1 && persistent", "whether a block takes several work tiles"}},
      .constraints =
          {"has_wgmma", "tokens > 1 && tokens <= 64", "prologue != rms_norm", "in >= 64 && in % 8 == 0",
           "out % 8 == 0", "cluster_k * cluster_m <= 4", "subtiles % warpgroups == 0",
           // Accumulators of a thread: 128, or 64 where four warpgroups, or three and the one that adds
           // squares, share the registers.
           "subtiles / warpgroups * rows_per_output * padded_tokens <= "
           "256 - 64 * max(0, warpgroups + adds_squares - 2)",
           // Each block of a cluster loads groups of 8 tokens.
           "padded_tokens % (8 * cluster_m) == 0", "rows % (8 * rows_per_output) == 0",
           // Groups of squares.
           "epilogue != add_rms || rows % 16 == 0",
           // With split K a block has one work tile, whose partial sums fit the stages.
           "cluster_k == 1 || !persistent || tiles * cluster_k <= sms",
           "cluster_k == 1 || epilogue != argmax",
           "cluster_k == 1 || 4 * padded_tokens * (rows + 4) <= stages * stage_bytes",
           // Nearly all SMs have work in the last wave, unless there is little. GPCs that are no
           // multiple of a cluster leave SMs idle. 64 rows are legal for every problem.
           "rows == 64 || !persistent || tiles * cluster_k >= (cluster_k * cluster_m > 2 ? 0.8 : 0.9) * sms "
           "* "
           "ceil(tiles * cluster_k / sms)",
           // x from the L2 is at most as much as the weights.
           "rows == 64 || padded_tokens <= rows * cluster_m",
           // Most of the shared memory holds stages, or all steps have one; no more stages than steps.
           "!persistent || stages * stage_bytes >= 160000 || stages * tile_k * cluster_k >= in",
           // Two blocks share an SM, so that one loads while the other ends, and more wait for their turn.
           "persistent || (48000 <= stages * stage_bytes <= 112000 && warpgroups == 1 && tiles * cluster_k > "
           "2 "
           "* sms)",
           "early_stages < stages && (early_stages == 0 || pdl)", kPrefetchConstraint,
           "tile_k * cluster_k <= in", "stages == 3 || (stages - 1) * tile_k * cluster_k < in"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/wgmma_streaming.cu",
                  .kernel = "linear_wgmma_streaming<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                            "{epilogue}, {rows}, {tile_k}, {stages}, {warpgroups}, {cluster_k}, {cluster_m}, "
                            "{evict_first}, {early_stages}, {prefetch}, {late_prefetch}>",
                  // Consumers, the warps that add squares, the producer.
                  .geometry = {.grid = {"is_persistent ? 1 : blocks"},
                               .block = {"128 * (warpgroups + adds_squares) + 32"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl",
                               .cluster = "cluster_k * cluster_m",
                               .per_sm = "is_persistent",
                               .max_blocks = "blocks"},
                  .maps = {matrix_map("weight", "weight_rows", "outputs"),
                           matrix_map("x", "tokens", "padded_tokens / cluster_m")}}},
      .workspace = kArgmaxWorkspace,
  };
}

}  // namespace

std::vector<Variant> linear_wgmma() { return {prompts(), few_tokens()}; }

}  // namespace warptune
