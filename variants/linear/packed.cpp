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
          "Few tokens, quantized weights: persistent blocks take them from memory to registers and convert "
          "them "
          "in front of mma.sync; warps split K.",
      .parameters = {{"blocks_per_sm", {1, 2, 3}, "persistent blocks per SM"},
                     {"warps", {4, 8, 16}, "warps per block, which split K"},
                     {"tiles", {1, 2}, "16 weight rows each of a work tile"},
                     {"unroll", {2, 4, 8, 12}, "blocks of weights in flight per 16 rows and warp"},
                     pdl_parameter()},
      .derived = {kWeightRows,
                  kBlockColumns,
                  {"warp_blocks", "ceil_div(in // block_columns, warps)",
                   "blocks of weights of a warp and row"},
                  {"x_bytes", "tokens * (in + 8) * dtype_bytes", "bytes of x in shared memory"}},
      .constraints = {kQuantized, kWholeBlocks, kNoSplitNorm, "tokens <= 8", "tiles * unroll <= 12",
                      "epilogue != swiglu || out % 8 == 0", "prologue == none || act_order == no",
                      // Registers: nine per block of weights in flight and 16 rows, 56 for other uses.
                      "blocks_per_sm * warps * (56 + 9 * tiles * unroll) <= 2048",
                      "8 <= blocks_per_sm * warps <= 32",
                      // A warp has a use for all of them.
                      "warp_blocks > unroll || unroll % warp_blocks == 0 || unroll == 12",
                      "blocks_per_sm * (x_bytes + 128 * warps * tiles * tokens + 2048) <= shared_per_block",
                      kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{.file = "linear/gemv_packed.cu",
            .kernel =
                "linear_gemv_packed<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, "
                "{weights}, {group}, {zeros}, {act_order}, {blocks_per_sm}, {warps}, {tiles}, {unroll}>",
            .geometry = {.grid = {"blocks_per_sm"},
                         .block = {"32 * warps"},
                         .shared_bytes = "x_bytes",
                         .pdl = "pdl",
                         .per_sm = 1}}},
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
