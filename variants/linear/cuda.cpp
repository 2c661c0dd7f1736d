// CUDA variants of linear, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/linear/argmax.h"
#include "variants/linear/linear.h"
#include "variants/linear/prefetch.h"

namespace warptune {
namespace {

unsigned threads(std::int64_t warps) { return as_unsigned(32 * warps); }

/// Bytes of the counters of gemv_split_k, one per row group; the partial sums follow them in the workspace.
std::int64_t split_k_partial_offset(const Problem& p, const Config& c) {
  return ceil_div(4 * ceil_div(p["out"], c["warps"] * c["rows"]), 256) * 256;
}

const Parameter kPdl = pdl_parameter();

// What a variant can fuse; the values are those of kernels/linear/args.h.
const std::string kNoPrologue = "prologue == 0", kNoEpilogue = "epilogue == 0", kNoSwiglu = "epilogue != 2";

/// Shared memory of a normalized x.
std::int64_t normalized_x_bytes(const Problem& p) {
  return p["prologue"] == 0 ? 0 : p["tokens"] * p["in"] * static_cast<std::int64_t>(size_of(p.dtype));
}

Variant naive() {
  return {
      .name = "naive",
      .idea = "One thread per output reads elements one by one.",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"}},
      .stages = {{"linear/naive.cu",
                  "linear_naive<{dtype}, {in}, {out}, {bias}, {prologue}, {epilogue}, {block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {blocks_for(p["tokens"] * p["out"], c["block"])},
                                  .block = {as_unsigned(c["block"])}};
                  }}},
      .workspace_bytes = argmax_workspace,
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
      .constraints = {kNoPrologue, kNoEpilogue, "tile_m / micro_m * (tile_n / micro_n) >= 64",
                      "tile_m / micro_m * (tile_n / micro_n) <= 256", "tile_m < 2 * tokens || tile_m == 16",
                      "tokens > 1"},
      .stages = {{"linear/tiled.cu",
                  "linear_tiled<{dtype}, {in}, {out}, {bias}, {tile_m}, {tile_n}, {tile_k}, {micro_m}, "
                  "{micro_n}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {blocks_for(p["out"], c["tile_n"]), blocks_for(p["tokens"], c["tile_m"])},
                        .block = {as_unsigned(c["tile_m"] / c["micro_m"] * c["tile_n"] / c["micro_n"])}};
                  }}},
  };
}

Variant mma() {
  const auto shared_bytes = [](const Config& c) {  // rows are padded by 16 bytes
    return c["stages"] * (c["tile_m"] + c["tile_n"]) * (c["tile_k"] + 8) * 2;
  };
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
      .constraints = {kNoPrologue, kNoEpilogue, "in % 8 == 0", "tokens > 1", "tile_m / warps_m >= 16",
                      "tile_n / warps_n >= 16",
                      // At most half a tile is padding; many tokens take large tiles.
                      "tile_m < 2 * tokens || tile_m == 16", "2 * tile_m >= min(tokens, 64)",
                      "tile_m * tile_n <= warps_m * warps_n * 32 * 64",
                      "stages * (tile_m + tile_n) * tile_k >= 8192 || stages == 5",
                      "stages * (tile_m + tile_n) * (tile_k + 8) <= 65536",  // 128 KiB
                      "pdl == 0 || tokens <= 64", kPdlConstraint},
      .resources = [=](const Problem&,
                       const Config& c) { return LaunchResources{.shared_bytes = shared_bytes(c)}; },
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"linear/mma.cu",
                  "linear_mma<{dtype}, {in}, {out}, {bias}, {tile_m}, {tile_n}, {tile_k}, {warps_m}, "
                  "{warps_n}, {stages}>",
                  [=](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {blocks_for(p["tokens"], c["tile_m"]), blocks_for(p["out"], c["tile_n"])},
                        .block = {threads(c["warps_m"] * c["warps_n"])},
                        .shared_bytes = shared_bytes(c),
                        .pdl = c["pdl"] != 0};
                  }}},
  };
}

Variant gemv_vectorized() {
  return {
      .name = "gemv_vectorized",
      .idea = "Few tokens: warps share output rows, vectorized loads with register prefetch.",
      .parameters = {{"warps", {4, 8}, "warps per block"},
                     {"warps_per_row", {1, 2, 4, 8}, "warps per output row"},
                     {"rows", {1, 2, 4}, "output rows per group of warps"},
                     {"unroll", {1, 2, 4, 8, 16}, "loads in flight per row and thread"},
                     kPdl},
      .constraints = {kNoPrologue, kNoSwiglu, kNoSplitNorm, "tokens <= 8", "warps_per_row <= warps",
                      "rows * unroll >= 4", "rows * unroll <= 16", "rows * tokens <= 16",
                      "rows * warps / warps_per_row <= max(out, 8)",
                      "unroll * warps_per_row * 512 <= in * dtype_bytes || rows * unroll == 4",
                      kPdlConstraint},
      .stages = {{"linear/gemv_vectorized.cu",
                  "linear_gemv_vectorized<{dtype}, {tokens}, {in}, {out}, {bias}, {epilogue}, {warps}, "
                  "{warps_per_row}, {rows}, {unroll}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {blocks_for(p["out"], c["warps"] / c["warps_per_row"] * c["rows"])},
                                  .block = {threads(c["warps"])},
                                  .pdl = c["pdl"] != 0};
                  }}},
      .workspace_bytes = argmax_workspace,
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
      .constraints = {kNoPrologue, kNoEpilogue, "tokens <= 8", "rows * unroll >= 4", "rows * unroll <= 16",
                      "rows * tokens <= 16",
                      "splits * unroll * 512 <= in * dtype_bytes || (splits == 2 && rows * unroll == 4)",
                      kPdlConstraint},
      .stages = {{"linear/gemv_split_k.cu",
                  "linear_gemv_split_k<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {rows}, {unroll}, "
                  "{splits}, {partial_offset}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {blocks_for(p["out"], c["warps"] * c["rows"]), as_unsigned(c["splits"])},
                        .block = {threads(c["warps"])},
                        .pdl = c["pdl"] != 0};
                  }}},
      .constants =
          [](const Problem& p, const Config& c) {
            return Assignment{{"partial_offset", split_k_partial_offset(p, c)}};
          },
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            return split_k_partial_offset(p, c) + 4 * c["splits"] * p["tokens"] * p["out"];
          },
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
      .constraints =
          {kNoSplitNorm, "tokens <= 8", "in * dtype_bytes % 16 == 0", "grid_blocks % sms == 0",
           "unroll * 512 <= in * dtype_bytes || unroll == 1",
           // Bytes of the pipelines of an SM: enough to hide the latency, and no more than its shared memory.
           "grid_blocks / sms * warps * stages * unroll * 512 >= 32768",
           "grid_blocks / sms * (warps * stages * unroll * 512 + 1024 + prologue * tokens * in * "
           "dtype_bytes) <= shared_per_block",
           kPdlConstraint},
      .stages =
          {{"linear/gemv_cp_async.cu",
            "linear_gemv_cp_async<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, {warps}, "
            "{stages}, {unroll}>",
            [](const Problem& p, const Config& c) {
              return Launch{
                  .grid = {as_unsigned(c["grid_blocks"])},
                  .block = {threads(c["warps"])},
                  .shared_bytes = c["warps"] * c["stages"] * c["unroll"] * 512 + normalized_x_bytes(p),
                  .pdl = c["pdl"] != 0};
            }}},
      .workspace_bytes = argmax_workspace,
  };
}

Variant gemv_bulk_copy() {
  const auto shared_bytes = [](const Problem& p, const Config& c) {
    const auto size = static_cast<std::int64_t>(size_of(p.dtype));
    return size * (c["warps"] * c["stages"] * c["rows"] * c["tile_k"] + p["tokens"] * p["in"]) +
           8 * c["warps"] * c["stages"];
  };
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
      .constraints =
          {kNoSplitNorm, "has_bulk_copy", "tokens <= 4", "in * dtype_bytes % 16 == 0",
           "late_prefetch == 0 || prologue == 0", prefetch_constraint(),
           "epilogue == 2 ? rows > 1 && 2 * out % rows == 0 : out % rows == 0",
           "tile_k <= in || tile_k == 512",
           // No spill: 64 registers of a thread have other uses.
           "register_tiles == 0 || (epilogue == 1 && dtype_bytes == 2 && register_tiles * tile_k <= in && "
           "blocks_per_sm * warps * (64 + register_tiles * rows * tile_k / 64) <= 2048)",
           "blocks_per_sm * warps * stages * rows * tile_k * dtype_bytes >= 60000",
           "blocks_per_sm * (dtype_bytes * (warps * stages * rows * tile_k + tokens * in) + "
           "2048) <= shared_per_block"},
      .stages =
          {{"linear/gemv_bulk_copy.cu",
            "linear_gemv_bulk_copy<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, {warps}, "
            "{rows}, {tile_k}, {stages}, {register_tiles}, {stagger}, {prefetch}, {late_prefetch}>",
            [shared_bytes](const Problem& p, const Config& c) {
              return Launch{.grid = {as_unsigned(c["blocks_per_sm"])},
                            .block = {threads(c["warps"] + (c["late_prefetch"] != 0))},
                            .shared_bytes = shared_bytes(p, c),
                            .pdl = c["pdl"] != 0,
                            .per_sm = true};
            }}},
      .workspace_bytes = argmax_workspace,
  };
}

Variant gemv_mma() {
  // GemvMma::Storage: stages, barriers, two buffers of partial sums, squares.
  const auto shared_bytes = [](const Problem& p, const Config& c) {
    const std::int64_t partials = p["tokens"] > 4 ? 12544 : 8448;
    return ceil_div(c["stages"] * (c["rows"] * 2 * c["tile_k"] + 16) + partials, 128) * 128;
  };
  const std::string padded_tokens = "(tokens <= 2 ? tokens : tokens <= 4 ? 4 : 8)";
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
      .constraints =
          {"has_bulk_copy", "dtype_bytes == 2", "tokens <= 8", "tokens > 4 || (prologue < 2 && epilogue < 4)",
           "in % max(64, 256 / " + padded_tokens + ") == 0", "late_prefetch == 0 || prologue == 0",
           prefetch_constraint(), "out % (epilogue == 2 ? rows / 2 : rows) == 0",
           "rows >= 2 * " + padded_tokens, "tile_k <= in", "tile_k * " + padded_tokens + " >= 2048",
           // No spill: x, the weights of the norm, and 56 registers of a thread for other uses.
           "(8 * blocks_per_sm + 4) * (56 + (prologue == 1 ? 2 : 1) * " + padded_tokens +
               " * in / 512) <= 2048",
           "blocks_per_sm * stages * rows * tile_k * 2 >= 60000",
           "blocks_per_sm * (stages * (rows * tile_k * 2 + 16) + (tokens > 4 ? 12544 : 8448) + 2048) "
           "<= shared_per_block"},
      .stages = {{"linear/gemv_mma.cu",
                  "linear_gemv_mma<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, "
                  "{blocks_per_sm}, {rows}, {tile_k}, {stages}, {prefetch}, {late_prefetch}>",
                  [shared_bytes](const Problem& p, const Config& c) {
                    return Launch{.grid = {as_unsigned(c["blocks_per_sm"])},
                                  .block = {threads(9)},
                                  .shared_bytes = shared_bytes(p, c),
                                  .pdl = c["pdl"] != 0,
                                  .per_sm = true};
                  }}},
      .workspace_bytes = argmax_workspace,
  };
}

}  // namespace

std::vector<Variant> linear_cuda() {
  return {naive(),         tiled(),          mma(),     gemv_vectorized(), gemv_split_k(),
          gemv_cp_async(), gemv_bulk_copy(), gemv_mma()};
}

std::vector<Variant> unfused(std::vector<Variant> variants) {
  for (Variant& variant : variants)
    variant.constraints.insert(variant.constraints.end(), {kNoPrologue, kNoEpilogue});
  return variants;
}

}  // namespace warptune
