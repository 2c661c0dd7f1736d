// CUDA variants of linear, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

const Parameter kPdl = pdl_parameter();

// What a variant can fuse.
const Expression kNoPrologue = "prologue == none", kNoEpilogue = "epilogue == none";

Variant naive() {
  return {
      .name = "naive",
      .idea = "One thread per output reads elements one by one.",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"}},
      .stages = {{.file = "linear/naive.cu",
                  .kernel = "linear_naive<{dtype}, {in}, {out}, {bias}, {prologue}, {epilogue}, {weights}, "
                            "{group}, {zeros}, {act_order}, {activations}, {block}>",
                  .geometry = {.grid = {"ceil_div(tokens * out, block)"}, .block = {"block"}}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant tiled() {
  return {
      .name = "tiled",
      .idea = "SIMT GEMM: tiles in shared memory, a register tile per thread, fp32 arithmetic.",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "output rows per block"},
                     {"tile_k", {16, 32}, "elements of a row per step"},
                     {"micro_m", {4, 8}, "tokens per thread"},
                     {"micro_n", {4, 8}, "output rows per thread"}},
      .derived = {{"threads", "tile_m / micro_m * (tile_n / micro_n)", "threads per block"}},
      .constraints = {kNoPrologue, kNoEpilogue, "64 <= threads <= 256", "tile_m < 2 * tokens || tile_m == 16",
                      "tokens > 1"},
      .stages = {{.file = "linear/tiled.cu",
                  .kernel = "linear_tiled<{dtype}, {in}, {out}, {bias}, {tile_m}, {tile_n}, {tile_k}, "
                            "{micro_m}, {micro_n}>",
                  .geometry = {.grid = {"ceil_div(out, tile_n)", "ceil_div(tokens, tile_m)"},
                               .block = {"threads"}}}},
  };
}

Variant mma() {
  return {
      .name = "mma",
      .idea =
          "Multistage tensor-core GEMM: mma.sync on tiles that cp.async loads to several stages of shared "
          "memory.",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "output rows per block"},
                     {"tile_k", {32, 64}, "elements of a row per step"},
                     {"warps_m", {1, 2}, "warps along the tokens"},
                     {"warps_n", {2, 4}, "warps along the output rows"},
                     {"stages", {3, 5}, "stages of the pipeline"},
                     kPdl},
      .derived = {{"shared_bytes", "stages * (tile_m + tile_n) * (tile_k + 8) * 2",
                   "bytes of the pipeline; a row is padded by 16"}},
      .constraints = {kNoPrologue, kNoEpilogue, "in % 8 == 0", "tokens > 1", "tile_m / warps_m >= 16",
                      "tile_n / warps_n >= 16",
                      // At most half a tile is padding; many tokens take large tiles.
                      "tile_m < 2 * tokens || tile_m == 16", "2 * tile_m >= min(tokens, 64)",
                      "tile_m * tile_n <= warps_m * warps_n * 32 * 64",
                      "stages * (tile_m + tile_n) * tile_k >= 8192 || stages == 5", "shared_bytes <= 131072",
                      "pdl == 0 || tokens <= 64", kPdlConstraint},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/mma.cu",
                  .kernel = "linear_mma<{dtype}, {in}, {out}, {bias}, {tile_m}, {tile_n}, {tile_k}, "
                            "{warps_m}, {warps_n}, {stages}>",
                  .geometry = {.grid = {"ceil_div(tokens, tile_m)", "ceil_div(out, tile_n)"},
                               .block = {"32 * warps_m * warps_n"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl"}}},
  };
}

Variant gemv_vectorized() {
  return {
      .name = "gemv_vectorized",
      .idea = "Few tokens: warps share output rows, vectorized loads with register prefetch.",
      .parameters = {{"warps", {4, 8}, "warps per block"},
                     {"warps_per_row", {1, 2, 4, 8}, "warps per weight row"},
                     {"rows", {1, 2, 4}, "weight rows per group of warps"},
                     {"unroll", {1, 2, 3, 4, 5, 6, 7, 8, 16}, "loads in flight per row and thread"},
                     tail_prefetch_parameter(),
                     kPdl},
      .derived = {kWeightRows,
                  {"block_rows", "warps // warps_per_row * rows", "weight rows per block"},
                  {"steps", "ceil_div(in * dtype_bytes, 512 * warps_per_row)",
                   "16-byte loads of a thread per row"}},
      .constraints =
          {kNoSplitNorm, "epilogue != swiglu || rows > 1", "tokens <= 8", "warps_per_row <= warps",
           "4 <= rows * unroll <= 16", "rows * tokens <= 16", "block_rows <= max(weight_rows, 8)",
           "unroll * warps_per_row * 512 <= in * dtype_bytes || rows * unroll == 4 || unroll == steps",
           // Other numbers than powers of two where they divide a row that is not one.
           "unroll in [1, 2, 4, 8, 16] || steps in [unroll, 2 * unroll]", "tail_prefetch == 0 || !pdl",
           kPdlConstraint},
      .stages = {{.file = "linear/gemv_vectorized.cu",
                  .kernel = "linear_gemv_vectorized<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                            "{epilogue}, {warps}, {warps_per_row}, {rows}, {unroll}, {tail_prefetch}>",
                  .geometry = {.grid = {"ceil_div(weight_rows, block_rows)"},
                               .block = {"32 * warps"},
                               .pdl = "pdl"}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant gemv_split_k() {
  return {
      .name = "gemv_split_k",
      .idea = "Few tokens: split-K over blocks with a last-block reduction.",
      .parameters = {{"warps", {4, 8}, "warps per block"},
                     {"rows", {1, 2, 4}, "output rows per warp"},
                     {"unroll", {2, 4, 8}, "loads in flight per row and thread"},
                     {"splits", {2, 4, 8, 16}, "blocks per row group"},
                     kPdl},
      .derived = {{"row_groups", "ceil_div(out, warps * rows)", "blocks along the output rows"},
                  {"partial_offset", "256 * ceil_div(4 * row_groups, 256)",
                   "bytes of the counters, one per row group; partial sums follow them in the workspace"}},
      .constraints = {kNoPrologue, kNoEpilogue, "tokens <= 8", "4 <= rows * unroll <= 16",
                      "rows * tokens <= 16",
                      "splits * unroll * 512 <= in * dtype_bytes || (splits == 2 && rows * unroll == 4)",
                      kPdlConstraint},
      .stages = {{.file = "linear/gemv_split_k.cu",
                  .kernel = "linear_gemv_split_k<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {rows}, "
                            "{unroll}, {splits}, {partial_offset}>",
                  .geometry = {.grid = {"row_groups", "splits"}, .block = {"32 * warps"}, .pdl = "pdl"}}},
      .workspace = "partial_offset + 4 * splits * tokens * out",
  };
}

Variant gemv_cp_async() {
  return {
      .name = "gemv_cp_async",
      .idea = "Few tokens: persistent blocks, a multistage cp.async pipeline per warp.",
      .parameters = {{"grid_blocks",
                      {108, 132, 216, 264, 432, 528},
                      "persistent blocks of the grid, a multiple of the SMs"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"stages", {2, 3, 4, 6}, "stages of the pipeline of a warp"},
                     {"unroll", {1, 2, 4}, "16-byte copies per thread and stage"},
                     kPdl},
      .derived = {{"pipeline_bytes", "warps * stages * unroll * 512", "bytes of the pipelines of a block"},
                  {"x_bytes", "prologue == none ? 0 : tokens * in * dtype_bytes", "bytes of a normalized x"}},
      .constraints =
          {kNoSplitNorm, "tokens <= 8", "in * dtype_bytes % 16 == 0", "grid_blocks % sms == 0",
           "unroll * 512 <= in * dtype_bytes || unroll == 1",
           // Bytes of the pipelines of an SM: enough to hide the latency, and no more than its shared memory.
           "grid_blocks / sms * pipeline_bytes >= 32768",
           "grid_blocks / sms * (pipeline_bytes + 1024 + x_bytes) <= shared_per_block", kPdlConstraint},
      .stages = {{.file = "linear/gemv_cp_async.cu",
                  .kernel = "linear_gemv_cp_async<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                            "{epilogue}, {warps}, {stages}, {unroll}>",
                  .geometry = {.grid = {"grid_blocks"},
                               .block = {"32 * warps"},
                               .shared_bytes = "pipeline_bytes + x_bytes",
                               .pdl = "pdl"}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant gemv_bulk_copy() {
  return {
      .name = "gemv_bulk_copy",
      .idea =
          "Few tokens: persistent blocks, a multistage bulk-copy pipeline per warp, filled before the "
          "dependency.",
      .parameters = {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"rows", {1, 2, 4}, "output rows that a warp computes at once"},
                     {"tile_k", {512, 1024, 2048}, "elements of a row per copy"},
                     {"stages", {3, 4, 6, 8}, "stages of the pipeline of a warp"},
                     {"register_tiles", {0, 1, 2}, "tiles of a warp's last rows that registers hold"},
                     {"stagger", {0, 1}, "steps of K between the first tiles of adjacent warps"},
                     prefetch_parameter(),
                     late_prefetch_parameter(),
                     kPdl},
      .derived = {{"stage_bytes", "warps * stages * rows * tile_k * dtype_bytes",
                   "bytes of the pipelines of a block"},
                  {"x_bytes", "tokens * in * dtype_bytes", "bytes of x"}},
      .constraints =
          {kNoSplitNorm, "has_bulk_copy", "tokens <= 4", "in * dtype_bytes % 16 == 0",
           "late_prefetch == 0 || prologue == none", kPrefetchConstraint,
           "epilogue == swiglu ? rows > 1 && 2 * out % rows == 0 : out % rows == 0",
           "tile_k <= in || tile_k == 512",
           // No spill: 64 registers of a thread have other uses.
           "register_tiles == 0 || (epilogue == add && dtype_bytes == 2 && register_tiles * tile_k <= in && "
           "blocks_per_sm * warps * (64 + register_tiles * rows * tile_k / 64) <= 2048)",
           "blocks_per_sm * stage_bytes >= 60000",
           "blocks_per_sm * (stage_bytes + x_bytes + 2048) <= shared_per_block"},
      .stages = {{.file = "linear/gemv_bulk_copy.cu",
                  .kernel = "linear_gemv_bulk_copy<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
                            "{epilogue}, {warps}, {rows}, {tile_k}, {stages}, {register_tiles}, {stagger}, "
                            "{prefetch}, {late_prefetch}>",
                  // A warp of its own prefetches late. A stage has a barrier of 8 bytes.
                  .geometry = {.grid = {"blocks_per_sm"},
                               .block = {"32 * (warps + (late_prefetch > 0))"},
                               .shared_bytes = "stage_bytes + x_bytes + 8 * warps * stages",
                               .pdl = "pdl",
                               .per_sm = 1}}},
      .workspace = kArgmaxWorkspace,
  };
}

Variant gemv_mma() {
  return {
      .name = "gemv_mma",
      .idea = "Few tokens: tensor cores, warps split K, x in registers, a bulk-copy pipeline per block.",
      .parameters = {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
                     {"rows", {2, 4, 8, 16}, "weight rows of a tile"},
                     {"tile_k", {1024, 2048, 4096}, "columns of a tile, which the warps split"},
                     {"stages", {2, 3, 4, 6, 8, 12, 24}, "tiles in the pipeline of a block"},
                     prefetch_parameter(),
                     late_prefetch_parameter(),
                     kPdl},
      .derived = {{"padded_tokens", "tokens <= 2 ? tokens : tokens <= 4 ? 4 : 8", "tokens of a fragment"},
                  {"stage_bytes", "rows * tile_k * 2", "bytes of a stage"},
                  {"storage_bytes", "stages * (stage_bytes + 16) + (tokens > 4 ? 12544 : 8448)",
                   "bytes of GemvMma::Storage: stages, barriers, two buffers of partial sums, squares"}},
      .constraints = {"has_bulk_copy", "dtype_bytes == 2", "tokens <= 8",
                      Expression("tokens > 4") || kNoSplitNorm, "in % max(64, 256 / padded_tokens) == 0",
                      "late_prefetch == 0 || prologue == none", kPrefetchConstraint,
                      "out % (epilogue == swiglu ? rows / 2 : rows) == 0",
                      // An mma takes 2 * padded_tokens weight rows (kernels/linear/diagonal_mma.cuh).
                      "rows >= 2 * padded_tokens", "tile_k <= in",
                      // Each of the eight warps has columns of a tile: 256 / padded_tokens or more.
                      "tile_k * padded_tokens >= 2048",
                      // No spill: x, the weights of the norm, and 56 registers of a thread for other uses.
                      "(8 * blocks_per_sm + 4) * (56 + (prologue == rms_norm ? 2 : 1) * padded_tokens * in / "
                      "512) <= 2048",
                      "blocks_per_sm * stages * stage_bytes >= 60000",
                      "blocks_per_sm * (storage_bytes + 2048) <= shared_per_block"},
      .stages = {{.file = "linear/gemv_mma.cu",
                  .kernel = "linear_gemv_mma<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, "
                            "{blocks_per_sm}, {rows}, {tile_k}, {stages}, {prefetch}, {late_prefetch}>",
                  // Eight consumer warps and the producer.
                  .geometry = {.grid = {"blocks_per_sm"},
                               .block = {"32 * 9"},
                               .shared_bytes = "128 * ceil_div(storage_bytes, 128)",
                               .pdl = "pdl",
                               .per_sm = 1}}},
      .workspace = kArgmaxWorkspace,
  };
}

}  // namespace

std::vector<Variant> linear_cuda() {
  std::vector<Variant> variants = unquantized(
      {tiled(), mma(), gemv_vectorized(), gemv_split_k(), gemv_cp_async(), gemv_bulk_copy(), gemv_mma()});
  variants.insert(variants.begin(), naive());
  return variants;
}

std::vector<Variant> unfused(std::vector<Variant> variants) {
  for (Variant& variant : variants)
    variant.constraints.insert(variant.constraints.end(), {kNoPrologue, kNoEpilogue});
  return variants;
}

std::vector<Variant> unquantized(std::vector<Variant> variants) {
  for (Variant& variant : variants) variant.constraints.emplace_back("weights == same");
  return variants;
}

}  // namespace warptune
