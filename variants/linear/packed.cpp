// CUDA variants of linear for quantized weights (kernels/linear/packed_weights.h).
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

const DerivedValue kBlockColumns{"block_columns", "weights == int4 ? 128 : 64",
                                 "columns of a block of packed weights"};
const Expression kQuantized = "weights != same", kWholeBlocks = "in % block_columns == 0";

Variant gemv_packed() {
  return {
      .name = "gemv_packed",
      .idea =
          "Few tokens, quantized weights: from memory to registers, converted in front of mma.sync; the "
          "warps "
          "of a block split K.",
      .parameters = {{"warps", {4, 8, 16}, "warps per block, which split K"},
                     {"tiles", {1, 2, 4}, "tiles of 16 weight rows per block"},
                     {"unroll", {1, 2, 4, 8}, "blocks of weights in flight per tile and warp"},
                     pdl_parameter()},
      .derived =
          {kWeightRows,
           kBlockColumns,
           {"outputs", "tiles * (epilogue == swiglu ? 8 : 16)", "outputs per block"},
           {"span", "group == 0 ? block_columns : min(group, block_columns)",
            "columns whose sum of x corrects partial sums"},
           {"shared_bytes",
            "tokens * (in + 8) * 2 + (weights == int4 ? 4 * (in // span) * (tokens <= 2 ? 2 : tokens <= 4 "
            "? 4 : 8) : 0)",
            "bytes of x and its sums"}},
      .constraints = {kQuantized, kWholeBlocks, kNoSplitNorm, "tokens <= 8", "tiles * unroll <= 8",
                      "outputs <= max(out, 16)", "epilogue != swiglu || out % 8 == 0",
                      "prologue == none || act_order == no",
                      // A warp has work for all of its loads in flight.
                      "warps * unroll * block_columns < 2 * in || (warps == 4 && unroll == 1)",
                      "shared_bytes + 64 * warps * tiles * tokens + 1024 <= shared_per_block",
                      kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/gemv_packed.cu",
                  .kernel =
                      "linear_gemv_packed<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, "
                      "{weights}, {group}, {zeros}, {act_order}, {warps}, {tiles}, {unroll}>",
                  .geometry = {.grid = {"ceil_div(out, outputs)"},
                               .block = {"32 * warps"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl"}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant mma_packed() {
  return {
      .name = "mma_packed",
      .idea =
          "Quantized weights: a multistage tensor-core GEMM that converts the weights in registers in front "
          "of "
          "mma.sync.",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "output rows per block"},
                     {"tile_k", {64, 128, 256}, "elements of a row per step"},
                     {"warps_m", {1, 2}, "warps along the tokens"},
                     {"warps_n", {2, 4}, "warps along the output rows"},
                     {"stages", {2, 3, 4}, "stages of the pipeline"},
                     pdl_parameter()},
      .derived = {kBlockColumns,
                  {"shared_bytes",
                   "stages * (tile_m * (tile_k + 8) * 2 + tile_n * tile_k * (weights == int4 ? 4 : 8) // 8)",
                   "bytes of the pipeline; a row of x is padded by 16"}},
      .constraints = {kQuantized, kWholeBlocks, "prologue == none", "epilogue == none", "tokens > 1",
                      "tile_k % block_columns == 0", "tile_m / warps_m >= 16", "tile_n / warps_n >= 8",
                      // At most half a tile is padding; many tokens take large tiles.
                      "tile_m < 2 * tokens || tile_m == 16", "2 * tile_m >= min(tokens, 64)",
                      "tile_m * tile_n <= warps_m * warps_n * 32 * 64", "shared_bytes <= shared_per_block",
                      "pdl == 0 || tokens <= 64", kPdlConstraint},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/mma_packed.cu",
                  .kernel = "linear_mma_packed<{dtype}, {in}, {out}, {bias}, {weights}, {group}, {zeros}, "
                            "{act_order}, {tile_m}, {tile_n}, {tile_k}, {warps_m}, {warps_n}, {stages}>",
                  .geometry = {.grid = {"ceil_div(tokens, tile_m)", "ceil_div(out, tile_n)"},
                               .block = {"32 * warps_m * warps_n"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl"}}},
  };
}

}  // namespace

std::vector<Variant> linear_packed() { return {gemv_packed(), mma_packed()}; }

}  // namespace warptune
