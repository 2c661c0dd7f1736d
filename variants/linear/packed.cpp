// CUDA variants of linear for quantized weights (kernels/linear/packed_weights.h).
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

const DerivedValue kOutputs{"outputs", "tiles * (epilogue == swiglu ? 8 : 16)", "outputs of these tiles"};
const DerivedValue kDigits{"digits", "tokens == 1 && weights in [int4, q4_k]",
                           "whether a GEMV splits x into digits"};
const DerivedValue kXGroups{
    "x_groups",
    "weights in [int4, q4_k, q5_k, q6_k] && !(digits && group == 0 && zeros == no) || (weights == int8 && "
    "group != 0) ? (group == 0 ? 1 : max(block_columns // max(group, 1), 1)) : 0",
    "sums of x that a GEMV stores for a block of weights"};
const DerivedValue kFp16{"fp16_x", "tokens == 1 && weights == fp8 && has_bulk_copy",
                         "whether a GEMV multiplies in fp16"};
const DerivedValue kXBytes{"x_bytes",
                           "16 * ceil_div((digits ? 4 * part_in : fp16_x ? 2 * part_in : "
                           "tokens * (part_in + 8) * dtype_bytes) + "
                           "4 * tokens * (fp16_x ? 0 : max(x_groups * part_in // block_columns, 1)) + "
                           "4 * warps * (prologue == none ? 1 : tokens), 16)",
                           "bytes of x, of its sums and its squares: WarpActivations::Shared"};
const DerivedValue kRowsPerOutput{"rows_per_output", "epilogue == swiglu ? 2 : 1",
                                  "weight rows of an output"};
const DerivedValue kWeightSlots{"weight_slots", "ceil_div(rows_per_output * out, 8)",
                                "slots of eight weight rows"};

const DerivedValue kGroups{"groups", "group == 0 ? 0 : in // max(group, 1)", "groups of columns of a row"};

/// Packed weights, by TMA boxes of blocks of slots.
TensorMapExpressions weight_map(const Expression& blocks, const Expression& slots) {
  return {.base = "weight",
          .dims = {256, "in / block_columns", "weight_slots"},
          .strides = {512, "512 * in / block_columns"},
          .box = {256, blocks, slots}};
}
/// Scales of groups, TMA boxes of `bytes` of each slot. For fp8 and without groups no kernel reads the map.
TensorMapExpressions scale_map(const Expression& bytes, const Expression& slots) {
  const Expression has_groups = "group != 0 && weights != fp8";
  return {
      .base = "scales",
      .dims = {if_else(has_groups, "groups * scale_bytes // 2", 8), if_else(has_groups, "weight_slots", 1)},
      .strides = {if_else(has_groups, "groups * scale_bytes", 16)},
      .box = {if_else(has_groups, bytes / 2, 8), if_else(has_groups, slots, 1)}};
}
const Expression kQuantized = "weights != same && activations == same",
                 kWholeBlocks = "in % block_columns == 0";

Variant gemv_packed_cp_async() {
  return {
      .name = "gemv_packed_cp_async",
      .idea =
          "Few tokens, quantized weights: persistent blocks, a cp.async pipeline per warp in front of "
          "mma.sync, integers as subnormal numbers, or with one token as they are beside digits of x; the "
          "warps of a block split K.",
      .parameters = {{"blocks_per_sm", {1, 2, 3}, "persistent blocks per SM"},
                     {"warps", {4, 8, 11, 14, 16, 18}, "warps per block, which split K"},
                     {"tiles", {1, 2, 4}, "tiles of 16 weight rows of a work tile"},
                     {"stages", {2, 3, 4, 6, 8}, "stages of the pipeline of a warp"},
                     tail_prefetch_parameter(),
                     pdl_parameter()},
      .derived = {kBlockColumns,
                  kOutputs,
                  {"part_in", "in", "columns of a block"},
                  kDigits,
                  kFp16,
                  kXGroups,
                  kXBytes,
                  kScaleBytes,
                  kScaleColumns,
                  {"slot_scale_bytes",
                   "group == 0 || weights == fp8 ? 16 : "
                   "scale_bytes * max(scale_columns, block_columns) // max(group, 1)",
                   "bytes of the scales of a slot in a stage"},
                  {"slot_zero_bytes", "8 * (zeros && group != 0 ? max(block_columns // group, 1) : 1)",
                   "bytes of its zero points"},
                  {"stage_bytes", "16 * ceil_div(2 * tiles * (512 + slot_scale_bytes + slot_zero_bytes), 16)",
                   "bytes of a stage of a warp"},
                  {"shared_bytes", "warps * stages * stage_bytes + x_bytes + 128 * warps * tiles * tokens",
                   "bytes of stages, x and two buffers of sums"},
                  {"blocks", "ceil_div(out, outputs)", "blocks that have work"}},
      .constraints = {kQuantized, kWholeBlocks, Expression("tokens > 4") || kNoSplitNorm, "tokens <= 16",
                      "tokens <= 8 || (prologue == none && epilogue != argmax)", "outputs <= max(out, 16)",
                      "epilogue != swiglu || out % 8 == 0", "prologue == none || act_order == no",
                      "warps * block_columns % scale_columns == 0", "tail_prefetch == 0 || pdl",
                      "warps <= in // block_columns || warps == 4",
                      // Powers of two do not divide K of down evenly (7B: 86 blocks, 13B: 108).
                      "warps in [4, 8, 16] || (in > 8192 && has_bulk_copy == 0)",
                      "blocks_per_sm * warps <= 32",
                      // Bytes of weights in flight per SM.
                      "blocks_per_sm * warps * (stages - 1) * tiles * 1024 >= 12000",
                      "blocks_per_sm * (shared_bytes + 1536) <= shared_per_block", kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/packed/gemv_packed_cp_async.cu",
                  .kernel = "linear_gemv_packed_cp_async<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                            "{epilogue}, {weights}, {group}, {zeros}, {act_order}, {blocks_per_sm}, {warps}, "
                            "{tiles}, {stages}, {tail_prefetch}>",
                  .geometry = {.grid = {"blocks_per_sm"},
                               .block = {"32 * warps"},
                               .shared_bytes = padded_shared_bytes("shared_bytes", "blocks_per_sm == 1"),
                               .pdl = "pdl",
                               .per_sm = 1,
                               .max_blocks = "blocks"}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant gemv_packed_bulk_copy() {
  return {
      .name = "gemv_packed_bulk_copy",
      .idea =
          "Few tokens, quantized weights: as gemv_packed_cp_async, with one pipeline of bulk copies per "
          "block; a cluster may split K.",
      .parameters = {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
                     {"warps", {4, 8, 16}, "consumer warps per block, which split K"},
                     {"tiles", {1, 2}, "tiles of 16 weight rows of a work tile"},
                     {"stages", {2, 3, 4, 6, 8, 12, 16}, "stages of the pipeline of a block"},
                     {"cluster_k", {1, 2, 4}, "blocks that split K"},
                     prefetch_parameter(),
                     tail_prefetch_parameter(),
                     pdl_parameter()},
      .derived =
          {kBlockColumns,
           kOutputs,
           kRowsPerOutput,
           kWeightSlots,
           {"part_in", "in // cluster_k", "columns of a block"},
           kDigits,
           kFp16,
           kXGroups,
           kXBytes,
           kGroups,
           {"slot_groups", "group == 0 || weights == fp8 ? 0 : warps * block_columns // max(group, 1)",
            "groups of columns of a row in a stage"},
           kScaleBytes,
           kScaleColumns,
           {"scale_chunks", "ceil_div(scale_bytes * slot_groups, scale_columns == 256 ? 320 : 512)",
            "TMA boxes of the scales of a matrix in a stage"},
           {"chunk_bytes", "max(scale_bytes * slot_groups // max(scale_chunks, 1), 16)",
            "bytes of a slot in a box of scales"},
           {"stage_bytes",
            "128 * ceil_div(1024 * tiles * warps + rows_per_output * max(scale_chunks, 1) * 128 * "
            "ceil_div(2 * tiles / rows_per_output * chunk_bytes, 128) + "
            "2 * tiles * max(zeros * 8 * slot_groups, 16), 128)",
            "bytes of a stage"},
           {"storage_bytes",
            "128 * ceil_div(stages * (stage_bytes + 16) + x_bytes + 128 * warps * tiles * tokens, 128)",
            "bytes of stages, x, two buffers of sums and barriers"},
           {"cluster_bytes",
            "cluster_k == 1 ? 0 : 128 * ceil_div(16 * cluster_k * rows_per_output * outputs * tokens + 16, "
            "128)",
            "bytes of the sums of four work tiles of the blocks of a cluster"}},
      .constraints =
          {kQuantized, kWholeBlocks, Expression("tokens > 4") || kNoSplitNorm, "has_bulk_copy",
           "tokens <= 16", "(tokens <= 8 && cluster_k == 1) || (prologue == none && epilogue != argmax)",
           "cluster_k == 1 || (act_order == no && blocks_per_sm * sms % cluster_k == 0)",
           "in % (cluster_k * max(scale_columns, block_columns)) == 0",
           "prefetch + tail_prefetch == 0 || pdl", "prefetch == 0 || epilogue == add",
           "epilogue != swiglu || out % 8 == 0", "prologue == none || act_order == no",
           "group == 0 || warps * block_columns % max(group, 1) == 0",
           "zeros == no || (group != 0 && part_in // max(group, 1) % 2 == 0 && slot_groups % 2 == 0)",
           "warps <= part_in // block_columns", "8 <= blocks_per_sm * warps <= 32",
           // Bytes of weights in flight per SM.
           "blocks_per_sm * stages * stage_bytes >= 60000",
           "blocks_per_sm * (storage_bytes + cluster_bytes + 1536) <= shared_per_block", kPdlConstraint},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/packed/gemv_packed_bulk_copy.cu",
                  .kernel =
                      "linear_gemv_packed_bulk_copy<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                      "{epilogue}, {weights}, {group}, {zeros}, {act_order}, {blocks_per_sm}, {warps}, "
                      "{tiles}, {stages}, {cluster_k}, {prefetch}, {tail_prefetch}>",
                  .geometry = {.grid = {"blocks_per_sm"},
                               .block = {"32 * (warps + 1)"},
                               .shared_bytes =
                                   padded_shared_bytes("storage_bytes + cluster_bytes", "blocks_per_sm == 1"),
                               .pdl = "pdl",
                               .cluster = "cluster_k",
                               .per_sm = 1},
                  .maps = {weight_map("warps", "2 * tiles / rows_per_output"),
                           scale_map("chunk_bytes", "2 * tiles / rows_per_output")}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant mma_packed() {
  return {
      .name = "mma_packed",
      .idea =
          "Quantized weights: a multistage tensor-core GEMM that converts the weights in registers in "
          "front of mma.sync.",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "output rows per block"},
                     {"tile_k", {64, 128, 256}, "elements of a row per step"},
                     {"warps_m", {1, 2}, "warps along the tokens"},
                     {"warps_n", {2, 4}, "warps along the output rows"},
                     {"stages", {2, 3, 4}, "stages of the pipeline"},
                     {"splits", {1, 2, 4, 8, 16}, "blocks of a tile, which split K"}},
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
           // A split has a whole pipeline of steps, and the device no more blocks than it can use.
           "splits == 1 || (splits * stages * tile_k <= in && grid_tiles * (splits // 2) < 4 * sms)"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/packed/mma_packed.cu",
                  .kernel =
                      "linear_mma_packed<{dtype}, {in}, {out}, {bias}, {weights}, {group}, {zeros}, "
                      "{act_order}, {tile_m}, {tile_n}, {tile_k}, {warps_m}, {warps_n}, {stages}, {splits}, "
                      "{partial_offset}>",
                  .geometry = {.grid = {"ceil_div(tokens, tile_m)", "ceil_div(out, tile_n)", "splits"},
                               .block = {"32 * warps_m * warps_n"},
                               .shared_bytes = "shared_bytes"}}},
      .workspace = "splits == 1 ? 0 : partial_offset + 4 * splits * tokens * out",
  };
}

const Expression kWgmmaSharedBytes = padded_shared_bytes("shared_bytes", "persistent");

/// The GEMM of wgmma_packed; `x`: the member of its arguments that has the address of x.
Stage wgmma_packed_gemm(const char* x, const Expression& condition) {
  return {
      .file = "linear/packed/wgmma_packed.cu",
      .kernel =
          "linear_wgmma_packed<{dtype}, {few_tokens}, {in}, {out}, {bias}, {prologue}, "
          "{epilogue}, {weights}, {group}, {zeros}, {tile_tokens}, {rows}, {tile_k}, "
          "{stages}, {warpgroups}, {warpgroups_k}, {cluster_k}, {cluster_m}, {prefetch}, {late_prefetch}>",
      // Consumers, the warps that add squares, the producer.
      .geometry = {.grid = {"is_persistent ? 1 : blocks"},
                   .block = {"128 * warpgroups + 96 * adds_squares + (tokens > 64 ? 128 : 32)"},
                   .shared_bytes = kWgmmaSharedBytes,
                   .pdl = "pdl",
                   .cluster = "cluster_k * cluster_m",
                   .per_sm = "is_persistent",
                   .max_blocks = "blocks"},
      .condition = condition,
      .maps = {weight_map("tile_k / block_columns", "outputs / 8"),
               scale_map("slot_scale_bytes", "outputs / 8"),
               // x in column tiles of 64 columns.
               {.base = x,
                .dims = {64, "tokens", "in / 64"},
                .strides = {"2 * in", 128},
                .box = {64, "tile_tokens", "tile_k / 64 / cluster_m"},
                .swizzle = Swizzle::bytes_128}}};
}

Variant wgmma_packed() {
  return {
      .name = "wgmma_packed",
      .idea =
          "Quantized weights on Hopper, 2 tokens to prompts: blocks stream weights to registers, where "
          "they are converted while wgmma multiplies those before; a cluster splits K or shares x. "
          "With act-order a kernel permutes x first.",
      .parameters = {{"tile_tokens",
                      {16, 32, 48, 64, 96, 112, 128, 160, 176, 192, 256},
                      "tokens of a work tile, N of wgmma"},
                     {"rows", {64, 96, 112, 128, 160, 192, 224, 256}, "weight rows of a work tile"},
                     {"tile_k", {64, 128, 256, 512}, "columns of a stage"},
                     {"stages", {2, 3, 4, 5, 6, 8, 10, 12}, "stages of the pipeline"},
                     {"warpgroups", {1, 2, 3, 4}, "consumer warpgroups of a block"},
                     {"warpgroups_k", {1, 2, 4}, "warpgroups that share weight rows and split K"},
                     {"cluster_k", {1, 2, 4}, "blocks that split K"},
                     {"cluster_m", {1, 2}, "blocks of adjacent work tiles that share x by multicast"},
                     {"persistent",
                      {1, 0},
                      "a block per SM computes several work tiles; 0: a block per work tile"},
                     prefetch_parameter(),
                     late_prefetch_parameter(),
                     pdl_parameter()},
      .derived = {kBlockColumns,
                  {"few_tokens", "tokens <= 64 ? tokens : 0",
                   "tokens where the kernel is compiled for them, else 0"},
                  kRowsPerOutput,
                  kWeightSlots,
                  {"outputs", "rows / rows_per_output", "outputs of a work tile"},
                  {"subtiles", "ceil_div(rows, 64)", "m64 tiles of a work tile"},
                  {"warpgroup_subtiles", "subtiles * warpgroups_k / warpgroups", "those of a warpgroup"},
                  {"tiles", "ceil_div(out, outputs)", "work tiles along the weight rows"},
                  {"token_tiles", "ceil_div(tokens, tile_tokens)", "work tiles along the tokens"},
                  {"adds_squares", "prologue == rms_scale", "whether three warps add squares"},
                  {"scales_sums", "weights == mxfp4", "whether scales of groups may multiply sums"},
                  // Accumulators, operands of two batches, and what else a thread needs.
                  {"registers", "warpgroup_subtiles * tile_tokens / 2 + scales_sums * tile_tokens / 2 + 64",
                   "registers of a consumer, estimated"},
                  kGroups,
                  kScaleBytes,
                  kScaleColumns,
                  {"slot_scale_bytes",
                   "group == 0 ? 0 : scale_bytes * max(tile_k, scale_columns) // max(group, 1)",
                   "bytes of the scales of a slot in a stage"},
                  {"stage_bytes",
                   "1024 * ceil_div(2 * tile_k * tile_tokens + rows * tile_k * 64 // block_columns + "
                   "rows_per_output * 128 * ceil_div(outputs * slot_scale_bytes, 1024), 1024)",
                   "bytes of a stage"},
                  {"splits", "warpgroups_k * cluster_k", "warpgroups that share an m64 tile and split K"},
                  {"owners", "tile_tokens % (16 * splits) == 0 ? splits : 1",
                   "splits that add sums of tokens"},
                  {"receive_bytes",
                   "splits == 1 ? 0 : 16 + (splits - 1) * 256 * subtiles * tile_tokens // owners * "
                   "(owners > 1 ? warpgroups_k : 1)",
                   "bytes for the sums of other splits"},
                  {"shared_bytes",
                   "stages * (stage_bytes + 16) + receive_bytes + (adds_squares ? 4 * tile_tokens : 0)",
                   "bytes of PackedWgmma's storage"},
                  {"blocks", "ceil_div(tiles, cluster_m) * cluster_k * cluster_m * token_tiles",
                   "blocks that have work"},
                  // With split K a block has one work tile, also where a second wave is needed.
                  {"is_persistent", "splits == 1 && persistent", "whether a block takes several work tiles"},
                  {"permute_threads", "32 * min(32, ceil_div(in, 256))",
                   "threads of a block that permutes a row of x, 8 columns each or more"}},
      .constraints =
          {kQuantized, "has_wgmma", "tokens > 1", "zeros == no || group != 0",
           // Both take the workspace.
           "act_order == no || epilogue != argmax", "out % 8 == 0", "in % tile_k == 0",
           "tile_k % block_columns == 0", "prologue == none || (prologue == rms_scale && tokens <= 64)",
           "tokens <= 64 || epilogue in [none, add, swiglu]", kPrefetchConstraint,
           // Few tokens are one tile; prompts take tiles that they fill.
           "tokens > 64 || tile_tokens == 16 * ceil_div(tokens, 16)",
           "tokens <= 64 || (tile_tokens >= 64 && tile_tokens != 48 && tile_tokens < 2 * tokens)",
           "rows % (16 * rows_per_output) == 0", "subtiles * warpgroups_k % warpgroups == 0",
           "warpgroups % warpgroups_k == 0 && tile_k % (warpgroups_k * block_columns) == 0",
           "tile_k <= 256 || warpgroups_k * block_columns == tile_k",
           "tokens <= 64 || (warpgroups == 2 && rows % 64 == 0 && persistent)",
           // A scheduler has a warp of each warpgroup, and the producer.
           "registers <= (tokens > 64 ? 232 : min(255, 8 * (64 // (warpgroups + 1))))",
           // A thread holds its residual beside its sums.
           "tokens <= 64 || epilogue != add || warpgroup_subtiles * tile_tokens <= 192",
           "tile_k % (64 * cluster_m) == 0", "cluster_k * cluster_m <= 4",
           "splits == 1 || (tokens <= 64 && epilogue != argmax)",
           "cluster_k == 1 || stages * tile_k * cluster_k <= in",
           "splits == 1 || !persistent || tiles * cluster_k <= sms",
           // Nearly all SMs have work in the last wave, unless there is little.
           "rows == 64 || !persistent || tokens > 64 || tiles * cluster_k >= 0.7 * sms * ceil(tiles * "
           "cluster_k / sms)",
           // Most of the shared memory holds stages, or all steps have one.
           "!persistent || stages * stage_bytes >= 110000 || stages * tile_k * cluster_k >= in",
           // Two blocks share an SM.
           "persistent || (32000 <= stages * stage_bytes <= 112000 && warpgroups == 1 && tiles * cluster_k > "
           "sms)",
           "stages == 2 || (stages - 1) * tile_k * cluster_k < in", "pdl == 0 || tokens <= 64",
           kPdlConstraint},
      .limits = {.shared_bytes =
                     Expression::call("max", {kWgmmaSharedBytes, "act_order == yes ? in * dtype_bytes : 0"})},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/packed/permute_columns.cu",
                  .kernel = "linear_permute_columns<{dtype}, {in}, {permute_threads}>",
                  .geometry = {.grid = {"tokens"},
                               .block = {"permute_threads"},
                               .shared_bytes = "in * dtype_bytes",
                               .pdl = "pdl"},
                  .condition = "act_order == yes"},
                 wgmma_packed_gemm("x", "act_order == no"),
                 wgmma_packed_gemm("workspace", "act_order == yes")},
      // x in the order of the columns, or the keys of argmax.
      .workspace = if_else("act_order == yes", "tokens * in * dtype_bytes", kArgmaxWorkspace),
  };
}

/// The GEMM of wgmma_fp8; `residual`: the member of its arguments that has the address of the residual.
Stage wgmma_fp8_gemm(const char* residual, const Expression& condition) {
  LaunchExpressions geometry = persistent_gemm();
  geometry.grid = {"cluster_k == 1 ? 1 : blocks"};
  geometry.per_sm = "cluster_k == 1";
  geometry.cluster = "cluster * cluster_k";
  const auto outputs = [](const char* base) {
    return TensorMapExpressions{.base = base,
                                .dims = {"out", "tokens"},
                                .strides = {"2 * out"},
                                .box = {32, 64},
                                .swizzle = Swizzle::bytes_64};
  };
  return {.file = "linear/packed/wgmma_fp8.cu",
          .kernel =
              "linear_wgmma_fp8<{dtype}, {in}, {out}, {bias}, {epilogue}, {group}, {tile_n}, "
              "{stages}, {cluster}, {cluster_k}, {group_m}, {promote}, {pingpong}>",
          .geometry = geometry,
          .condition = condition,
          // Lines of 64 bytes of weights, 8 of a packed block.
          .maps = {{.base = "weight",
                    .dims = {32, "in / 8", "weight_slots"},
                    .strides = {64, "8 * in"},
                    .box = {32, 16, "tile_n / 16"},
                    .swizzle = Swizzle::bytes_64},
                   {.base = "workspace",
                    .dims = {"in / 2", "tokens"},
                    .strides = {"in"},
                    .box = {64, 128},
                    .swizzle = Swizzle::bytes_128},
                   outputs("y"),
                   outputs(residual)}};
}

Variant wgmma_fp8() {
  return {
      .name = "wgmma_fp8",
      .idea =
          "fp8 weights and activations on Hopper: rows are quantized, then a persistent GEMM on the "
          "fp8 tensor cores, TMA producer, cooperative consumers, both operands in shared memory.",
      .parameters = {{"tile_n", {64, 96, 128, 160, 176, 192, 256}, "weight rows of a tile of 128 tokens"},
                     {"stages", {3, 4, 5, 6}, "stages of the pipeline, 128 columns each"},
                     {"cluster", {1, 2}, "blocks that share a weight tile by multicast"},
                     {"cluster_k", {1, 2, 4}, "blocks that split K, with one work tile"},
                     {"group_m", {4, 8, 16}, "L2 swizzle: clusters along the tokens that run together"},
                     {"promote",
                      {128, 256, 512, 0},
                      "columns that the tensor cores add before their sums are added in fp32; 0: all"},
                     {"pingpong", {1, 0}, "the consumer warpgroups take turns to issue wgmma"},
                     pdl_parameter()},
      .derived =
          {kRowsPerOutput,
           kWeightSlots,
           {"outputs", "tile_n / rows_per_output", "outputs of a work tile"},
           {"blocks", "ceil_div(tokens, 128 * cluster) * ceil_div(out, outputs) * cluster * cluster_k",
            "blocks that have work of their own"},
           {"epilogue_bytes",
            "512 * ceil_div(4096 * ceil_div(outputs // cluster_k, 32) + 4 * tile_n // cluster_k + 8, 512)",
            "bytes of 64 tokens of y, scales of rows and a barrier"},
           {"receive_bytes", "cluster_k == 1 ? 0 : 16 + (cluster_k - 1) * 512 * tile_n // cluster_k",
            "bytes for the sums of other splits"},
           {"shared_bytes",
            "512 * ceil_div(stages * (128 * (128 + tile_n) + 16) + 2 * epilogue_bytes + receive_bytes, "
            "512)",
            "bytes of the stages of 128 columns of x and weight, of their barriers, and of the "
            "epilogues of two warpgroups"}},
      .constraints = {"activations == fp8", "has_wgmma", "in % 128 == 0", "out % 8 == 0", "prologue == none",
                      "epilogue in [none, add, swiglu]",
                      // Boxes of y.
                      "outputs % 16 == 0 && outputs >= 32",
                      // Rows of a tile are in two blocks of scales at most.
                      "group == 0 || outputs <= 128 + gcd(outputs, 128)",
                      "promote == 128 || (group == 0 && promote <= in)",
                      // Sums of 14 bits are too coarse for fp16.
                      "promote != 0 || mantissa_bits < 10",
                      // A thread has one set of sums, or two.
                      "tile_n <= 192 || promote == 0",
                      // Few tokens take no pairs of tiles; 144 KB of stages; groups that differ.
                      "cluster == 1 || tokens > 128", "stages * (128 + tile_n) >= 1152",
                      // A split has one work tile, a whole pipeline of steps, and outputs of its own.
                      "cluster_k == 1 || (cluster == 1 && epilogue != swiglu && blocks <= sms && "
                      "in % (128 * cluster_k) == 0 && 128 * stages * cluster_k <= in && "
                      "outputs % (16 * cluster_k) == 0 && outputs >= 32 * cluster_k)",
                      "promote <= in // cluster_k", "group_m == 4 || (group_m / 2) * 128 * cluster < tokens",
                      kPdlConstraint},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      // Without a residual its map is that of y, which exists.
      .stages = {quantize_rows("pdl"), wgmma_fp8_gemm("y", "epilogue != add"),
                 wgmma_fp8_gemm("residual", "epilogue == add")},
      .workspace = kQuantizedRows,
  };
}

}  // namespace

Stage quantize_rows(const Expression& pdl) {
  return {.file = "linear/packed/quantize_rows.cu",
          .kernel = "linear_quantize_rows<{dtype}, {in}>",
          .geometry = {.grid = {"tokens"}, .block = {256}, .pdl = pdl}};
}

std::vector<Variant> linear_packed() {
  return {gemv_packed_cp_async(), gemv_packed_bulk_copy(), mma_packed_cp_async(),
          mma_packed(),           wgmma_packed(),          wgmma_fp8()};
}

}  // namespace warptune
