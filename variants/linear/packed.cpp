// CUDA variants of linear for quantized weights (kernels/linear/packed_weights.h).
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

const DerivedValue kBlockColumns{"block_columns", "weights == int8 || weights == fp8 ? 64 : 128",
                                 "columns of a block of packed weights"};
const DerivedValue kOutputs{"outputs", "tiles * (epilogue == swiglu ? 8 : 16)", "outputs of these tiles"};
const DerivedValue kXBytes{"x_bytes", "tokens * (in + 8) * dtype_bytes", "bytes of x in shared memory"};
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
      .derived = {kBlockColumns, kOutputs, kXBytes},
      .constraints = {kQuantized, kWholeBlocks, kNoSplitNorm, "tokens <= 8", "tiles * unroll <= 8",
                      "outputs <= max(out, 16)", "epilogue != swiglu || out % 8 == 0",
                      "prologue == none || act_order == no",
                      // A warp has work for all of its loads in flight.
                      "warps * unroll * block_columns < 2 * in || (warps == 4 && unroll == 1)",
                      "x_bytes + 64 * warps * tiles * tokens + 1024 <= shared_per_block", kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/gemv_packed.cu",
                  .kernel =
                      "linear_gemv_packed<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, "
                      "{weights}, {group}, {zeros}, {act_order}, {warps}, {tiles}, {unroll}>",
                  .geometry = {.grid = {"ceil_div(out, outputs)"},
                               .block = {"32 * warps"},
                               .shared_bytes = "x_bytes",
                               .pdl = "pdl"}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant gemv_packed_bulk_copy() {
  return {
      .name = "gemv_packed_bulk_copy",
      .idea =
          "Few tokens, quantized weights: persistent blocks, a deep pipeline of bulk copies that is filled "
          "before "
          "the dependency, converted in front of mma.sync; warps split K.",
      .parameters = {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
                     {"warps", {4, 8, 16}, "consumer warps per block, which split K"},
                     {"tiles", {1, 2}, "tiles of 16 weight rows of a work tile"},
                     {"stages", {2, 3, 4, 6, 8, 12, 16}, "stages of the pipeline of a block"},
                     pdl_parameter()},
      .derived =
          {kBlockColumns,
           kOutputs,
           kXBytes,
           {"slot_groups", "group == 0 ? 0 : warps * block_columns // max(group, 1)",
            "groups of columns of a row in a stage"},
           {"scale_bytes", "weights == nvfp4 || weights == mxfp4 ? 8 : 16",
            "bytes of the scales of a group of 8 rows"},
           {"stage_bytes",
            "2 * tiles * (512 * warps + max(scale_bytes * slot_groups, 16) + max(zeros * 8 * slot_groups, "
            "16))",
            "bytes of a stage"},
           {"storage_bytes",
            "8 * ceil_div(stages * (stage_bytes + 16) + x_bytes + 128 * warps * tiles * tokens + 4 * "
            "tokens, 8)",
            "bytes of the shared memory of a block: stages, x, two buffers of sums, barriers, scales"}},
      .constraints = {kQuantized, kWholeBlocks, kNoSplitNorm, "has_bulk_copy", "tokens <= 8",
                      "epilogue != swiglu || out % 8 == 0", "prologue == none || act_order == no",
                      "weights != fp8 || group == 0",
                      "group == 0 || warps * block_columns % max(group, 1) == 0",
                      "zeros == no || (group != 0 && in // max(group, 1) % 2 == 0 && slot_groups % 2 == 0)",
                      "warps <= in // block_columns", "8 <= blocks_per_sm * warps <= 32",
                      // Bytes of weights in flight per SM.
                      "blocks_per_sm * stages * stage_bytes >= 60000",
                      "blocks_per_sm * (storage_bytes + 1536) <= shared_per_block", kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/gemv_packed_bulk_copy.cu",
                  .kernel =
                      "linear_gemv_packed_bulk_copy<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                      "{epilogue}, {weights}, {group}, {zeros}, {act_order}, {blocks_per_sm}, {warps}, "
                      "{tiles}, {stages}>",
                  .geometry = {.grid = {"blocks_per_sm"},
                               .block = {"32 * (warps + 1)"},
                               .shared_bytes = "storage_bytes",
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
                     {"splits", {1, 2, 4, 8, 16}, "blocks of a tile, which split K"},
                     pdl_parameter()},
      .derived = {kBlockColumns,
                  {"grid_tiles", "ceil_div(tokens, tile_m) * ceil_div(out, tile_n)", "tiles of the output"},
                  {"partial_offset", "256 * ceil_div(4 * grid_tiles, 256)",
                   "bytes of the counters, one per tile; partial sums follow them in the workspace"},
                  {"shared_bytes",
                   "stages * (tile_m * (tile_k + 8) * 2 + tile_n * tile_k // block_columns * 64)",
                   "bytes of the pipeline; a row of x is padded by 16"}},
      .constraints =
          {kQuantized, kWholeBlocks, "prologue == none", "epilogue == none", "tokens > 1",
           "tile_k % block_columns == 0", "tile_m / warps_m >= 16", "tile_n / warps_n >= 8",
           // At most half a tile is padding; many tokens take large tiles.
           "tile_m < 2 * tokens || tile_m == 16", "2 * tile_m >= min(tokens, 64)",
           "tile_m * tile_n <= warps_m * warps_n * 32 * 64", "shared_bytes <= shared_per_block",
           "pdl == 0 || tokens <= 64", kPdlConstraint,
           // A split has a whole pipeline of steps, and the device no more blocks than it can use.
           "splits == 1 || (splits * stages * tile_k <= in && grid_tiles * (splits // 2) < 4 * sms)"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/mma_packed.cu",
                  .kernel =
                      "linear_mma_packed<{dtype}, {in}, {out}, {bias}, {weights}, {group}, {zeros}, "
                      "{act_order}, {tile_m}, {tile_n}, {tile_k}, {warps_m}, {warps_n}, {stages}, {splits}, "
                      "{partial_offset}>",
                  .geometry = {.grid = {"ceil_div(tokens, tile_m)", "ceil_div(out, tile_n)", "splits"},
                               .block = {"32 * warps_m * warps_n"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl"}}},
      .workspace = "splits == 1 ? 0 : partial_offset + 4 * splits * tokens * out",
  };
}

}  // namespace

std::vector<Variant> linear_packed() { return {gemv_packed(), gemv_packed_bulk_copy(), mma_packed()}; }

}  // namespace warptune
