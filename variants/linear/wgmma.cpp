// The GEMM of linear for Hopper: TMA and wgmma (sm_90a).
#include "kernels/linear/args.h"
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"

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

/// A row-major matrix, by TMA boxes of 64 columns.
TensorMapSpec matrix_map(const Problem& p, const void* base, std::int64_t rows, std::int64_t box_rows) {
  return {.base = base,
          .dtype = p.dtype,
          .dims = {p["in"], rows},
          .strides = {2 * p["in"]},
          .box = {64, box_rows}};
}

}  // namespace

std::vector<Variant> linear_wgmma() {
  return {{
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
                                  .cluster = static_cast<unsigned>(c["cluster"]),
                                  .per_sm = true,
                                  .max_blocks = work_tiles(p, c) * c["cluster"]};
                  },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const LinearArgs*>(raw);
                    const std::int64_t rows = p["epilogue"] == kEpilogueSwiglu ? 2 * p["out"] : p["out"];
                    return {matrix_map(p, args.weight, rows, c["tile_n"] / 2),
                            matrix_map(p, args.x, args.tokens, c["tile_m"])};
                  }}},
      .work_distribution =
          [](const Problem& p, const Config& c) {
            return WorkDistribution{.tiles = static_cast<double>(work_tiles(p, c) * c["cluster"])};
          },
  }};
}

}  // namespace warptune
