// The GEMMs of linear for Hopper, TMA and wgmma (sm_90a): wgmma for prompts, wgmma_streaming for 2 to 64
// tokens.
#include "kernels/linear/args.h"
#include "variants/helpers/streaming.h"
#include "variants/linear/argmax.h"
#include "variants/linear/linear.h"
#include "variants/linear/prefetch.h"

namespace warptune {
namespace {

/// Storage of wgmma.cu: stages of 64 columns of x and weight, barriers.
std::int64_t shared_bytes(const Config& c) {
  return c["stages"] * 128 * (c["tile_m"] + c["tile_n"]) + 16 * c["stages"];
}

/// Clusters that have work of their own: a cluster takes adjacent token tiles.
std::int64_t work_tiles(const Problem& p, const Config& c) {
  const std::int64_t outputs = p["epilogue"] == kEpilogueSwiglu ? c["tile_n"] / 2 : c["tile_n"];
  return ceil_div(p["tokens"], c["tile_m"] * c["cluster"]) * ceil_div(p["out"], outputs);
}

std::int64_t weight_rows(const Problem& p) {
  return p["epilogue"] == kEpilogueSwiglu ? 2 * p["out"] : p["out"];
}

/// A row-major matrix, by TMA boxes of 64 columns.
TensorMapSpec matrix_map(const Problem& p, const void* base, std::int64_t rows, std::int64_t box_rows) {
  return {.base = base,
          .dtype = p.dtype,
          .dims = {p["in"], rows},
          .strides = {2 * p["in"]},
          .box = {64, box_rows}};
}

Variant prompts() {
  return {
      .name = "wgmma",
      .idea = "Prompts on Hopper: persistent GEMM, TMA producer warp, cooperative wgmma consumer warpgroups.",
      .parameters = {{"tile_m", {128, 256}, "tokens of a work tile"},
                     {"tile_n", {64, 128, 192, 224, 256}, "weight rows of a work tile"},
                     {"stages", {3, 4, 5, 6, 8}, "stages of the pipeline, 64 columns each"},
                     {"cluster", {1, 2}, "blocks that share a weight tile by multicast"},
                     {"group_m", {4, 8, 16}, "L2 swizzle: clusters along the tokens that run together"},
                     pdl_parameter()},
      .constraints = {"has_wgmma", "tokens > 64", "prologue == 0", "epilogue < 3", "in >= 64 && in % 8 == 0",
                      "out % 8 == 0",
                      // Accumulators of a thread: 128, or 192 without a residual.
                      "tile_m * tile_n <= (epilogue == 1 ? 32768 : 49152)",
                      // Both halves of a weight tile are whole pairs of octets.
                      "epilogue != 2 || tile_n % 32 == 0",
                      // Few tokens take small tiles.
                      "tile_m * cluster < tokens + 128",
                      // 147 KB of stages, and groups that differ.
                      "stages * (tile_m + tile_n) >= 1152 || stages == 8",
                      "group_m == 4 || (group_m / 2) * tile_m * cluster < tokens"},
      .resources = [](const Problem&,
                      const Config& c) { return LaunchResources{.shared_bytes = shared_bytes(c)}; },
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"linear/wgmma.cu",
                  "linear_wgmma<{dtype}, {in}, {out}, {bias}, {epilogue}, {tile_m}, {tile_n}, {stages}, "
                  "{cluster}, {group_m}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {1},
                                  .block = {384},
                                  .shared_bytes = shared_bytes(c),
                                  .pdl = c["pdl"] != 0,
                                  .cluster = as_unsigned(c["cluster"]),
                                  .per_sm = true,
                                  .max_blocks = work_tiles(p, c) * c["cluster"]};
                  },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const LinearArgs*>(raw);
                    return {matrix_map(p, args.weight, weight_rows(p), c["tile_n"] / 2),
                            matrix_map(p, args.x, args.tokens, c["tile_m"])};
                  }}},
      .work_distribution =
          [](const Problem& p, const Config& c) {
            return WorkDistribution{.tiles = static_cast<double>(work_tiles(p, c) * c["cluster"])};
          },
  };
}

/// StreamingWgmma of wgmma_streaming.cu.
struct StreamingTile {
  std::int64_t tokens, outputs, subtiles, tiles;  // padded tokens; of a work tile, work tiles
  bool scales;                                    // whether warps add squares

  StreamingTile(const Problem& p, const Config& c)
      : tokens(16 * ceil_div(p["tokens"], 16)),
        outputs(p["epilogue"] == kEpilogueSwiglu ? c["rows"] / 2 : c["rows"]),
        subtiles(ceil_div(outputs, 64)),
        tiles(ceil_div(p["out"], outputs)),
        scales(p["prologue"] == kPrologueRmsScale) {}
  /// Consumers, the warps that add squares, the producer.
  std::int64_t threads(const Config& c) const { return 128 * (c["warpgroups"] + scales) + 32; }
  /// Stages, what the last m64 tile reads beyond them, barriers, scales.
  std::int64_t shared_bytes(const Config& c) const {
    return c["stages"] * 2 * c["tile_k"] * (c["rows"] + tokens) + 128 * (64 * subtiles - outputs) +
           16 * c["stages"] + (scales ? 4 * tokens : 0);
  }
};

Variant few_tokens() {
  const std::string parts = "(1 + (epilogue == 2))", outputs = "(rows / " + parts + ")",
                    subtiles = "ceil(" + outputs + " / 64)", tokens16 = "(16 * ceil(tokens / 16))",
                    blocks = "(ceil(out / " + outputs + ") * cluster_k)",
                    stage_bytes = "(2 * stages * tile_k * (rows + " + tokens16 + "))";
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
            "a block per SM takes work tiles in turn; 0: a block per work tile, two at a time per SM"},
           {.name = "early_stages",
            .values = {0, 2, 4, 6, 10},
            .doc = "stages whose weights are loaded before the dependency, and so before x; 0: all",
            .in_step_only = true},
           prefetch_parameter(),
           late_prefetch_parameter(),
           pdl_parameter()},
      .constraints =
          {"has_wgmma", "tokens > 1 && tokens <= 64", "prologue != 1", "in >= 64 && in % 8 == 0",
           "out % 8 == 0", "cluster_k * cluster_m <= 4", subtiles + " % warpgroups == 0",
           // Accumulators of a thread: 128, or 64 where four warpgroups, or three and the one that adds
           // squares, share the registers.
           subtiles + " / warpgroups * " + parts + " * " + tokens16 +
               " <= 256 - 64 * max(0, warpgroups + (prologue == 2) - 2)",
           // Each block of a cluster loads whole groups of 8 tokens.
           tokens16 + " % (8 * cluster_m) == 0", "rows % (8 * " + parts + ") == 0",
           // add_rms: whole groups of squares.
           "epilogue != 4 || rows % 16 == 0",
           // With split K a block has one work tile, whose partial sums fit the stages.
           "cluster_k == 1 || persistent == 0 || " + blocks + " <= sms", "cluster_k == 1 || epilogue != 3",
           "cluster_k == 1 || 2 * " + tokens16 + " * (rows + 4) <= tile_k * stages * (rows + " + tokens16 +
               ")",
           // Nearly all SMs have work in the last wave, unless there is little. GPCs that are no
           // multiple of a cluster leave SMs idle.
           "rows == 64 || persistent == 0 || " + blocks +
               " >= (cluster_k * cluster_m > 2 ? 0.8 : 0.9) * sms * ceil(" + blocks + " / sms)",
           // x from the L2 is at most as much as the weights.
           "rows == 64 || " + tokens16 + " <= rows * cluster_m",
           // Most of the shared memory holds stages, or all steps have one; no more stages than steps.
           "persistent == 0 || " + stage_bytes + " >= 160000 || stages * tile_k * cluster_k >= in",
           // Two blocks share an SM, so that one loads while the other ends, and more wait for their turn.
           "persistent == 1 || (" + stage_bytes + " >= 48000 && " + stage_bytes +
               " <= 112000 && warpgroups == 1 && " + blocks + " > 2 * sms)",
           "early_stages < stages && (early_stages == 0 || pdl)", prefetch_constraint(),
           "tile_k * cluster_k <= in", "stages == 3 || (stages - 1) * tile_k * cluster_k < in"},
      .resources =
          [](const Problem& p, const Config& c) {
            return LaunchResources{.shared_bytes = StreamingTile(p, c).shared_bytes(c)};
          },
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{"linear/wgmma_streaming.cu",
            "linear_wgmma_streaming<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, {rows}, "
            "{tile_k}, {stages}, {warpgroups}, {cluster_k}, {cluster_m}, {evict_first}, {early_stages}, "
            "{prefetch}, {late_prefetch}>",
            [](const Problem& p, const Config& c) {
              const StreamingTile tile(p, c);
              const std::int64_t cluster = c["cluster_k"] * c["cluster_m"];
              // With split K a block has one work tile, also where a second wave is needed.
              const bool persistent = c["cluster_k"] == 1 && c["persistent"] != 0;
              const std::int64_t blocks = ceil_div(tile.tiles, c["cluster_m"]) * cluster;
              return Launch{.grid = {persistent ? 1 : as_unsigned(blocks)},
                            .block = {as_unsigned(tile.threads(c))},
                            .shared_bytes = tile.shared_bytes(c),
                            .pdl = c["pdl"] != 0,
                            .cluster = as_unsigned(cluster),
                            .per_sm = persistent,
                            .max_blocks = blocks};
            },
            {},
            [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
              const auto& args = *static_cast<const LinearArgs*>(raw);
              const StreamingTile tile(p, c);
              return {matrix_map(p, args.weight, weight_rows(p), tile.outputs),
                      matrix_map(p, args.x, p["tokens"], tile.tokens / c["cluster_m"])};
            }}},
      .workspace_bytes = argmax_workspace,
      .work_distribution =
          [](const Problem& p, const Config& c) {
            return WorkDistribution{.tiles = static_cast<double>(StreamingTile(p, c).tiles * c["cluster_k"])};
          },
  };
}

}  // namespace

std::vector<Variant> linear_wgmma() { return {prompts(), few_tokens()}; }

}  // namespace warptune
