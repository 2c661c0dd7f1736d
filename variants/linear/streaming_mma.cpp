// Streaming tensor-core variants of linear, for 2 to 64 tokens (kernels/linear/streaming_mma.cuh).
#include "kernels/linear/args.h"
#include "variants/helpers/streaming.h"
#include "variants/linear/argmax.h"
#include "variants/linear/linear.h"

namespace warptune {
namespace {

std::int64_t padded_tokens(const Problem& p) { return 8 * ceil_div(p["tokens"], 8); }

/// The shared memory of SkinnyGemm: stages, resident x, partial sums, squares and scales, barriers.
std::int64_t shared_bytes(const Problem& p, const Config& c) {
  const std::int64_t tokens = padded_tokens(p), x_tile = 2 * tokens * c["tile_k"];
  const std::int64_t steps = ceil_div(ceil_div(p["in"], c["tile_k"]), c.get("cluster", 1));
  const bool resident_x = c["resident_x"] != 0, split_k = c["warps_k"] * c.get("cluster", 1) > 1;
  return c["stages"] * (2 * c["rows"] * c["tile_k"] + (resident_x ? 0 : x_tile)) +
         (resident_x ? steps * x_tile : 0) + (split_k ? 4 * c["warps_k"] * tokens * (c["rows"] + 4) : 0) +
         4 * (c["warps_k"] + 1) * tokens + 8 * (2 * c["stages"] + 2);
}

/// Columns are the innermost 64, so that a tile of several panels of 64 columns is one TMA box.
TensorMapSpec panels_map(const Problem& p, const Config& c, const void* base, std::int64_t rows,
                         std::int64_t box_rows) {
  return {.base = base,
          .dtype = p.dtype,
          .dims = {64, rows, p["in"] / 64},
          .strides = {2 * p["in"], 128},
          .box = {64, box_rows, c["tile_k"] / 64}};
}

std::vector<Parameter> parameters() {
  return {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
          {"warps_m", {1, 2, 4, 8}, "consumer warps along the weight rows"},
          {"warps_k", {1, 2, 4, 8}, "consumer warps that split the columns of a tile"},
          {"rows", {16, 32, 64, 128, 256}, "weight rows of a tile"},
          {"tile_k", {64, 128, 256, 512}, "columns of a tile"},
          {"stages", {2, 3, 4, 6, 8, 12}, "stages of the pipeline"},
          {"resident_x",
           {0, 1},
           "x stays in shared memory, else it is loaded with each group of rows",
           {"no", "yes"}}};
}

/// `cluster` is the number of blocks that split K, or 1.
std::vector<std::string> constraints(const std::string& cluster) {
  const std::string padded = "8 * rint(tokens / 8 + 0.4375)", weight_rows = "out * (1 + (epilogue == 2))",
                    sum_rows = "rows / warps_m * " + padded;
  return {kNoSplitNorm, "tokens > 1 && tokens <= 64",
          // Row numbers have 32 bits.
          weight_rows + " <= 2147480000", "warps_m * warps_k == 4 || warps_m * warps_k == 8",
          "rows >= 16 * warps_m",
          // Few tokens: every warp takes all rows. Many: a B fragment serves two m16 tiles or more.
          "warps_m == 1 || tokens > 16", "tokens <= 16 || rows >= 32 * warps_m", "tile_k >= 32 * warps_k",
          // Accumulators of a thread: 128, or 64 where two blocks share an SM.
          sum_rows + " * blocks_per_sm <= 4096",
          // Partial sums of a group: 68 KB.
          "warps_k * " + cluster + " == 1 || 4 * warps_k * " + padded + " * (rows + 4) <= 69632",
          // No more rows than a cluster owns.
          "rows == 16 * warps_m || rows * sms * blocks_per_sm < 1.5 * " + cluster + " * " + weight_rows,
          // x from the L2 with every group is at most as much as the weights.
          "resident_x == 1 || tokens <= rows",
          // Bytes of weights in flight per SM.
          "blocks_per_sm * stages * rows * tile_k >= 30000",
          "blocks_per_sm * stages * rows * tile_k <= 98304"};
}

Launch launch(const Problem& p, const Config& c, std::int64_t producer_threads) {
  return {.grid = {as_unsigned(c["blocks_per_sm"])},
          .block = {as_unsigned(32 * c["warps_m"] * c["warps_k"] + producer_threads)},
          .shared_bytes = shared_bytes(p, c),
          .pdl = c.get("pdl", 0) != 0,
          .cluster = as_unsigned(c.get("cluster", 1)),
          .per_sm = true};
}

/// Each of the blocks of an SM reserves 1 KB more.
LaunchResources resources(const Problem& p, const Config& c) {
  return {.shared_bytes = c["blocks_per_sm"] * (shared_bytes(p, c) + 1024) - 1024};
}

const std::string kTemplate =
    "<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, {blocks_per_sm}, {warps_m}, {warps_k}, "
    "{rows}, {tile_k}, {stages}, {resident_x}";

Variant mma_bulk_copy() {
  Variant v{
      .name = "mma_bulk_copy",
      .idea =
          "2 to 64 tokens: persistent blocks stream weights by TMA to mma.sync; the warps of a block, and "
          "the blocks of a cluster, split K.",
      .parameters = parameters(),
      .constraints = constraints("cluster"),
      .resources = resources,
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"linear/mma_bulk_copy.cu",
                  "linear_mma_bulk_copy" + kTemplate + ", {cluster}>",
                  [](const Problem& p, const Config& c) { return launch(p, c, 32); },
                  {},
                  [](const Problem& p, const Config& c, const void* raw) -> std::vector<TensorMapSpec> {
                    const auto& args = *static_cast<const LinearArgs*>(raw);
                    const std::int64_t rows = p["epilogue"] == kEpilogueSwiglu ? 2 * p["out"] : p["out"];
                    return {panels_map(p, c, args.weight, rows, 8),
                            panels_map(p, c, args.x, p["tokens"], padded_tokens(p))};
                  }}},
      .workspace_bytes = argmax_workspace};
  // racecheck reports hazards between the blocks of a cluster that are not explained: none is taken.
  v.parameters.push_back({"cluster", {1}, "blocks of a cluster, which split K"});
  v.parameters.push_back(pdl_parameter());
  for (const char* constraint : {"has_bulk_copy", "in % 64 == 0", "cluster == 1"})
    v.constraints.emplace_back(constraint);
  return v;
}

Variant mma_cp_async() {
  Variant v{
      .name = "mma_cp_async",
      .idea =
          "2 to 64 tokens: persistent blocks stream weights by cp.async to mma.sync; the warps of a block "
          "split K.",
      .parameters = parameters(),
      .constraints = constraints("1"),
      .resources = resources,
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{"linear/mma_cp_async.cu", "linear_mma_cp_async" + kTemplate + ">",
                  [](const Problem& p, const Config& c) { return launch(p, c, 128); }}},
      .workspace_bytes = argmax_workspace};
  for (const char* constraint : {"in % 8 == 0", "blocks_per_sm == 1 || warps_m * warps_k == 4"})
    v.constraints.emplace_back(constraint);
  return v;
}

}  // namespace

std::vector<Variant> linear_streaming_mma() { return {mma_bulk_copy(), mma_cp_async()}; }

}  // namespace warptune
