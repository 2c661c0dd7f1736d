// How linear runs on the GPU: an index of ideas in rising difficulty.
#include "variants/linear/linear.h"

namespace warptune {
namespace {

unsigned threads(std::int64_t warps) { return static_cast<unsigned>(32 * warps); }

/// Bytes before the partial sums of gemv_split_k: one counter per group of rows.
std::int64_t split_k_partial_offset(const Problem& p, const Config& c) {
  return ceil_div(4 * ceil_div(p["out"], c["warps"] * c["rows"]), 256) * 256;
}

const Parameter kPdl{"pdl", {0, 1}, "programmatic dependent launch"};
const std::string kPdlRule = "pdl == 0 || arch >= 90";

Variant naive() {
  return {
      .name = "naive",
      .idea = "thread per output, one element at a time",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"}},
      .stages = {{"linear/naive.cu", "linear_naive<{dtype}, {in}, {out}, {bias}, {block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {blocks_for(p["tokens"] * p["out"], c["block"])},
                                  .block = {static_cast<unsigned>(c["block"])}};
                  }}},
  };
}

Variant tiled() {
  return {
      .name = "tiled",
      .idea = "tiles in shared memory, a small tile of sums per thread, fp32 arithmetic",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "outputs per block"},
                     {"tile_k", {16, 32}, "elements of a row per step"},
                     {"micro_m", {4, 8}, "tokens per thread"},
                     {"micro_n", {4, 8}, "outputs per thread"}},
      .constraints = {"tile_m / micro_m * (tile_n / micro_n) >= 64",
                      "tile_m / micro_m * (tile_n / micro_n) <= 256", "tile_m < 2 * tokens || tile_m == 16",
                      "tokens > 1"},
      .stages = {{"linear/tiled.cu",
                  "linear_tiled<{dtype}, {in}, {out}, {bias}, {tile_m}, {tile_n}, {tile_k}, {micro_m}, "
                  "{micro_n}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {blocks_for(p["out"], c["tile_n"]), blocks_for(p["tokens"], c["tile_m"])},
                        .block = {
                            static_cast<unsigned>(c["tile_m"] / c["micro_m"] * c["tile_n"] / c["micro_n"])}};
                  }}},
  };
}

Variant mma() {
  const auto shared_bytes = [](const Config& c) {
    return c["stages"] * (c["tile_m"] + c["tile_n"]) * (c["tile_k"] + 8) * 2;
  };
  return {
      .name = "mma",
      .idea = "tensor cores, tiles stream through shared memory by cp.async",
      .parameters = {{"tile_m", {16, 32, 64, 128}, "tokens per block"},
                     {"tile_n", {32, 64, 128}, "outputs per block"},
                     {"tile_k", {32, 64}, "elements of a row per step"},
                     {"warps_m", {1, 2}, "warps along the tokens"},
                     {"warps_n", {2, 4}, "warps along the outputs"},
                     {"stages", {3, 5}, "tiles in shared memory"},
                     kPdl},
      .constraints = {"in % 8 == 0", "tokens > 1", "tile_m / warps_m >= 16", "tile_n / warps_n >= 16",
                      // no more than half a tile of padding, and no small tiles where there are many tokens
                      "tile_m < 2 * tokens || tile_m == 16", "2 * tile_m >= min(tokens, 64)",
                      "tile_m * tile_n <= warps_m * warps_n * 32 * 64",
                      "stages * (tile_m + tile_n) * tile_k >= 8192 || stages == 5",
                      "stages * (tile_m + tile_n) * (tile_k + 8) * 2 <= min(shared_per_block, 131072)",
                      "pdl == 0 || tokens <= 64", kPdlRule},
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
      .idea = "few tokens: warps share rows of the weight, 16-byte loads, many in flight",
      .parameters = {{"warps", {4, 8}, "warps per block"},
                     {"warps_per_row", {1, 2, 4, 8}, "warps that share a row"},
                     {"rows", {1, 2, 4}, "rows per group of warps"},
                     {"unroll", {1, 2, 4, 8, 16}, "loads in flight per row and thread"},
                     kPdl},
      .constraints = {"tokens <= 8", "warps_per_row <= warps", "rows * unroll >= 4", "rows * unroll <= 16",
                      "rows * tokens <= 16", "rows * warps / warps_per_row <= max(out, 8)",
                      "unroll * warps_per_row * 512 <= in * dtype_bytes || rows * unroll == 4", kPdlRule},
      .stages = {{"linear/gemv_vectorized.cu",
                  "linear_gemv_vectorized<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {warps_per_row}, "
                  "{rows}, {unroll}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {blocks_for(p["out"], c["warps"] / c["warps_per_row"] * c["rows"])},
                                  .block = {threads(c["warps"])},
                                  .pdl = c["pdl"] != 0};
                  }}},
  };
}

Variant gemv_split_k() {
  return {
      .name = "gemv_split_k",
      .idea = "few tokens: the row length split over blocks, the last to arrive adds up",
      .parameters = {{"warps", {4, 8}, "warps per block"},
                     {"rows", {1, 2, 4}, "rows per warp"},
                     {"unroll", {2, 4, 8}, "loads in flight per row and thread"},
                     {"splits", {2, 4, 8, 16}, "blocks that share a row"},
                     kPdl},
      .constraints = {"tokens <= 8", "rows * unroll >= 4", "rows * unroll <= 16", "rows * tokens <= 16",
                      "splits * unroll * 512 <= in * dtype_bytes || (splits == 2 && rows * unroll == 4)",
                      kPdlRule},
      .stages = {{"linear/gemv_split_k.cu",
                  "linear_gemv_split_k<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {rows}, {unroll}, "
                  "{splits}, {partial_offset}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {blocks_for(p["out"], c["warps"] * c["rows"]),
                                           static_cast<unsigned>(c["splits"])},
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

Variant gemv_async() {
  return {
      .name = "gemv_async",
      .idea = "few tokens: persistent blocks, each warp streams rows through its own cp.async ring",
      .parameters = {{"blocks", {108, 132, 216, 264, 432, 528}, "blocks in all; multiples of the SMs"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"stages", {2, 3, 4, 6}, "stages of a warp's ring"},
                     {"unroll", {1, 2, 4}, "16-byte copies per thread and stage"},
                     kPdl},
      .constraints = {"tokens <= 8", "in * dtype_bytes % 16 == 0", "blocks % sms == 0",
                      "unroll * 512 <= in * dtype_bytes || unroll == 1",
                      // bytes in the rings of an SM: enough to cover the latency, and no more than it has
                      "blocks / sms * warps * stages * unroll * 512 >= 32768",
                      "blocks / sms * (warps * stages * unroll * 512 + 1024) <= shared_per_block", kPdlRule},
      .stages = {{"linear/gemv_async.cu",
                  "linear_gemv_async<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {stages}, {unroll}>",
                  [](const Problem&, const Config& c) {
                    return Launch{.grid = {static_cast<unsigned>(c["blocks"])},
                                  .block = {threads(c["warps"])},
                                  .shared_bytes = c["warps"] * c["stages"] * c["unroll"] * 512,
                                  .pdl = c["pdl"] != 0};
                  }}},
  };
}

Variant gemv_ring() {
  const auto shared_bytes = [](const Problem& p, const Config& c) {
    const auto size = static_cast<std::int64_t>(size_of(p.dtype));
    return size * (c["warps"] * c["stages"] * c["rows"] * c["chunk"] + p["tokens"] * p["in"]) +
           8 * c["warps"] * c["stages"];
  };
  return {
      .name = "gemv_ring",
      .idea =
          "few tokens: each warp streams rows through its own ring of bulk copies, asked for before the "
          "dependency",
      .parameters = {{"blocks_per_sm", {1, 2}, "resident blocks per SM"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"rows", {1, 2, 4}, "rows a warp takes at once"},
                     {"chunk", {512, 1024, 2048}, "elements of a row per copy"},
                     {"stages", {3, 4, 6, 8}, "stages of a warp's ring"},
                     kPdl},
      .constraints =
          {"arch >= 90", "tokens <= 4", "in * dtype_bytes % 16 == 0", "out % rows == 0",
           "chunk <= in || chunk == 512",
           "blocks_per_sm * warps * stages * rows * chunk * dtype_bytes >= 60000",
           "blocks_per_sm * (dtype_bytes * (warps * stages * rows * chunk + tokens * in) + 2048) <= "
           "shared_per_block"},
      .stages =
          {{"linear/gemv_ring.cu",
            "linear_gemv_ring<{dtype}, {tokens}, {in}, {out}, {bias}, {warps}, {rows}, {chunk}, {stages}>",
            [shared_bytes](const Problem& p, const Config& c) {
              return Launch{.grid = {static_cast<unsigned>(c["blocks_per_sm"])},
                            .block = {threads(c["warps"])},
                            .shared_bytes = shared_bytes(p, c),
                            .pdl = c["pdl"] != 0,
                            .per_sm = true};
            }}},
  };
}

}  // namespace

std::vector<Variant> linear_cuda() {
  return {naive(), tiled(), mma(), gemv_vectorized(), gemv_split_k(), gemv_async(), gemv_ring()};
}

}  // namespace warptune
