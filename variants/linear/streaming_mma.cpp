// Streaming tensor-core variants of linear, for 2 to 64 tokens (kernels/linear/streaming_mma.cuh).
#include "variants/helpers/streaming.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"

namespace warptune {
namespace {

std::vector<Parameter> parameters(std::vector<std::int64_t> rows,
                                  std::vector<std::int64_t> warps_k = {1, 2, 4, 8},
                                  std::vector<std::int64_t> tile_k = {64, 128, 256, 512},
                                  std::vector<std::int64_t> warps_m = {1, 2, 4, 8}) {
  return {{"blocks_per_sm", {1, 2}, "persistent blocks per SM"},
          {"warps_m", std::move(warps_m), "consumer warps along the weight rows"},
          {"warps_k", std::move(warps_k), "consumer warps that split the columns of a tile"},
          {"rows", std::move(rows), "weight rows of a tile"},
          {"tile_k", std::move(tile_k), "columns of a tile"},
          {"stages", {2, 3, 4, 6, 8, 12}, "stages of the pipeline"},
          {"resident_x",
           {0, 1},
           "x stays in shared memory, else it is loaded with each group of rows",
           {"no", "yes"}}};
}

/// The shared memory of SkinnyGemm: stages, resident x, partial sums, squares and scales, barriers.
/// `blocks_k`: the number of blocks that split K; `stage_bytes`: of weights; `buffer_bytes`: of the pipeline
/// and the partial sums.
std::vector<DerivedValue> derived(const Expression& blocks_k, const Expression& stage_bytes,
                                  const Expression& buffer_bytes) {
  return {
      kWeightRows,
      {"padded_tokens", "8 * ceil_div(tokens, 8)", "tokens of the fragments"},
      {"x_tile_bytes", "2 * padded_tokens * tile_k", "bytes of a stage of x"},
      {"steps", ceil_div("ceil_div(in, tile_k)", blocks_k), "stages that a block loads per group of rows"},
      {"split_k", Expression("warps_k") * blocks_k > 1, "whether warps or blocks split K"},
      {"partial_bytes", "4 * warps_k * padded_tokens * (rows + 4)", "bytes of the partial sums of a group"},
      {"stage_bytes", stage_bytes, "bytes of a stage of weights"},
      {"pipeline_bytes",
       "stages * (stage_bytes + (resident_x ? 0 : x_tile_bytes)) + (resident_x ? steps * x_tile_bytes : 0)",
       "bytes of the stages, and of x"},
      {"shared_bytes", buffer_bytes + "4 * (warps_k + 1) * padded_tokens + 8 * (2 * stages + 2)",
       "bytes of shared memory of a block"}};
}

/// Partial sums beside the stages, and their bytes at most, 68 KB.
const Expression kBuffersApart = "pipeline_bytes + (split_k ? partial_bytes : 0)", kPartialBytes = 69632;

/// The constraints of all. `bytes`: of weights in flight per SM, at least; `partial_bytes`: at most.
std::vector<Expression> constraints(const Expression& blocks_k, const Expression& bytes,
                                    const Expression& partial_bytes) {
  return {"tokens > 1 && tokens <= 64",
          // Row numbers have 32 bits.
          "weight_rows <= 2147480000", "warps_m * warps_k in [4, 8, 12, 16]", "rows % (16 * warps_m) == 0",
          // With many tokens a B fragment serves two m16 tiles or more.
          "tokens <= 16 || rows >= 32 * warps_m", !Expression("split_k") || "partial_bytes" <= partial_bytes,
          // No more rows than the blocks that split K have, but for the smallest tile.
          "rows == (tokens <= 16 ? 16 : 32) * warps_m" ||
              Expression("rows * sms * blocks_per_sm") < 1.5 * blocks_k * "weight_rows",
          bytes <= "blocks_per_sm * stages * stage_bytes", "blocks_per_sm * stages * stage_bytes <= 196608"};
}

/// Those of 16-bit weights.
std::vector<Expression> plain_constraints(const Expression& blocks_k) {
  // Fewer bytes where x takes most of a stage.
  auto all = constraints(blocks_k, "resident_x || tokens <= rows ? 60000 : 30000", kPartialBytes);
  // With few tokens every warp takes all rows.
  for (const char* constraint : {"warps_m == 1 || tokens > 16", "tile_k >= 32 * warps_k",
                                 // Accumulators of a thread: 128, or 64 where two blocks share an SM.
                                 "rows / warps_m * padded_tokens * blocks_per_sm <= 4096"})
    all.emplace_back(constraint);
  return all;
}

const Expression kPlainStage = "2 * rows * tile_k";

LaunchExpressions geometry(const Expression& cluster, int producer_warps) {
  return {.grid = {"blocks_per_sm"},
          .block = {32 * (Expression("warps_m * warps_k") + producer_warps)},
          .shared_bytes = "shared_bytes",
          .cluster = cluster,
          .per_sm = 1};
}

/// Each of the blocks of an SM reserves 1 KB more.
ResourceExpressions limits(const Expression& shared_bytes) {
  return {.shared_bytes = "blocks_per_sm" * (shared_bytes + 1024) - 1024};
}

const std::string kTemplate =
    "<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, {epilogue}, {blocks_per_sm}, {warps_m}, {warps_k}, "
    "{rows}, {tile_k}, {stages}, {resident_x}";

Variant mma_bulk_copy() {
  // Columns are the innermost 64, so that a tile of several column tiles is one TMA tile.
  const auto matrix = [](const char* base, const Expression& rows, const Expression& box_rows) {
    return TensorMapExpressions{.base = base,
                                .dims = {64, rows, "in / 64"},
                                .strides = {"2 * in", 128},
                                .box = {64, box_rows, "tile_k / 64"},
                                .swizzle = Swizzle::bytes_128};
  };
  Variant v{
      .name = "mma_bulk_copy",
      .idea =
          "2 to 64 tokens: persistent blocks stream weights by TMA to mma.sync; the warps of a "
          "block, and the blocks of a cluster, split K.",
      .parameters = parameters({16, 32, 64, 128, 256}),
      .derived = derived("cluster", kPlainStage, kBuffersApart),
      .constraints = plain_constraints("cluster"),
      .limits = limits("shared_bytes"),
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "linear/mma_bulk_copy.cu",
                  .kernel = "linear_mma_bulk_copy" + kTemplate + ", {cluster}>",
                  .geometry = geometry("cluster", 1),
                  .maps = {matrix("weight", "weight_rows", 8), matrix("x", "tokens", "padded_tokens")}}},
      .workspace = kArgmaxWorkspace};
  v.stages.front().geometry.pdl = "pdl";
  // racecheck reports hazards between the blocks of a cluster that are not explained: none is used.
  v.parameters.push_back({"cluster", {1}, "blocks of a cluster, which split K"});
  v.parameters.push_back(pdl_parameter());
  v.constraints.push_back(kNoSplitNorm);
  // x from the L2 with every group is at most as much as the weights.
  for (const char* constraint :
       {"has_bulk_copy", "in % 64 == 0", "cluster == 1", "resident_x || tokens <= rows"})
    v.constraints.emplace_back(constraint);
  return v;
}

/// Blocks that split K add their sums in the workspace. An exported launch has the same number of them on
/// every device: whole groups of blocks, which the workspace is sized for.
void add_splits(Variant& v) {
  LaunchExpressions& launch = v.stages.front().geometry;
  launch.grid = {"splits == 1 ? blocks_per_sm : blocks_per_sm * sms"};
  launch.per_sm = "splits == 1";
  v.parameters.push_back({"splits", {1, 2, 4}, "blocks that split K"});
  v.derived.push_back({"groups", "4 * ceil_div(out, rows)", "at least the groups of rows of all blocks"});
  v.derived.push_back({"partial_offset", "splits == 1 ? 0 : 256 * ceil_div(4 * groups, 256)",
                       "bytes of the counters, one per group; partial sums follow them in the workspace"});
  v.workspace =
      if_else("splits == 1", kArgmaxWorkspace, "partial_offset + 4 * groups * splits * tokens * (rows + 4)");
  // Blocks that split K read x less often, which matters with many tokens.
  v.constraints.emplace_back(
      "splits == 1 || !resident_x && prologue == none && epilogue in [none, add, add_rms] && "
      "sms * blocks_per_sm % splits == 0 && rows * sms * blocks_per_sm <= 2 * splits * out");
}

Variant mma_cp_async() {
  Variant v{.name = "mma_cp_async",
            .idea =
                "2 to 64 tokens: persistent blocks stream weights by cp.async to mma.sync; the warps of a "
                "block split K.",
            .parameters = parameters({16, 32, 64, 96, 128, 192, 256}),
            .derived = derived("splits", kPlainStage, kBuffersApart),
            .constraints = plain_constraints("splits"),
            .limits = limits("shared_bytes"),
            .dtypes = {DType::fp16, DType::bf16},
            .stages = {{.file = "linear/mma_cp_async.cu",
                        .kernel = "linear_mma_cp_async" + kTemplate + ", {splits}, {partial_offset}>",
                        .geometry = geometry(1, 4)}}};
  add_splits(v);
  // x from the L2 with every group is at most twice as much as the weights: with 64 tokens and few weight
  // rows, groups of 64 rows would leave SMs idle.
  for (const char* constraint : {"in % 8 == 0", "blocks_per_sm == 1 || warps_m * warps_k == 4",
                                 "resident_x || tokens <= 2 * rows", "splits == 1 || tokens > 16",
                                 // Squares are loaded as vectors; outputs that a thread stores are adjacent.
                                 "prologue != rms_scale || in % 64 == 0", "epilogue != add_rms || split_k"})
    v.constraints.emplace_back(constraint);
  return v;
}

}  // namespace

Variant mma_packed_cp_async() {
  const Expression shared_bytes = padded_shared_bytes("shared_bytes", "blocks_per_sm == 1");
  Variant v{
      .name = "mma_packed_cp_async",
      .idea =
          "2 to 64 tokens, quantized weights: as mma_cp_async, weights are converted in registers in front "
          "of mma.sync.",
      .parameters =
          parameters({16, 32, 48, 64, 96, 128, 192, 256}, {1, 2, 4}, {128, 256, 512}, {1, 2, 3, 4, 8}),
      .derived = {kBlockColumns,
                  kScaleBytes,
                  kScaleColumns,
                  {"slot_bytes",
                   "16 * ceil_div(512 * tile_k // block_columns + "
                   "((group == 0 ? 0 : scale_bytes) + 8 * zeros) * tile_k // max(group, 1), 16)",
                   "bytes of eight rows of weights in a stage, with their scales and zero points"},
                  {"row_blocks", "ceil_div(ceil_div(out, 8), rows // (epilogue == swiglu ? 16 : 8))",
                   "blocks of one group of rows each that have all outputs"}},
      .constraints =
          constraints("splits", "tokens <= 16 ? 30000 : 16000", if_else("one_group", 131072, kPartialBytes)),
      .limits = limits(shared_bytes),
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {
          {.file = "linear/packed/mma_packed_cp_async.cu",
           .kernel =
               "linear_mma_packed_cp_async<{dtype}, {tokens}, {in}, {out}, {bias}, {prologue}, "
               "{epilogue}, {weights}, {group}, {zeros}, {blocks_per_sm}, {warps_m}, {warps_k}, {rows}, "
               "{tile_k}, {stages}, {resident_x}, {one_group}, {splits}, {partial_offset}>",
           .geometry = geometry(1, 4)}}};
  v.parameters.push_back(
      {"one_group",
       {0, 1},
       "a block has one group of rows, on any device: its sums take the place of the stages",
       {"no", "yes"}});
  for (const DerivedValue& value :
       derived("splits", "128 * ceil_div(rows / 8 * slot_bytes, 128)",
               if_else("one_group", "max(pipeline_bytes, partial_bytes)", kBuffersApart)))
    v.derived.push_back(value);
  v.derived.push_back({"registers",
                       "rows / warps_m * padded_tokens / 32 + padded_tokens / 4 + (tile_k // warps_k < "
                       "block_columns ? 56 : 72)",
                       "registers of a consumer, estimated"});
  add_splits(v);
  v.parameters.push_back(pdl_parameter());
  LaunchExpressions& launch = v.stages.front().geometry;
  launch.pdl = "pdl";
  launch.shared_bytes = shared_bytes;
  launch.grid = {if_else("one_group", "row_blocks * splits", launch.grid.x)};
  launch.per_sm = "splits == 1 && one_group == no";
  for (const Expression& constraint : std::vector<Expression>{
           "weights != same && activations == same", "act_order == no", "zeros == no || group != 0",
           "in % block_columns == 0", "tile_k % block_columns == 0",
           // A warp multiplies whole blocks, or whole words of one.
           "tile_k % (warps_k * (weights in [int4, int8, fp8] ? 32 : block_columns)) == 0",
           "tile_k % scale_columns == 0", "epilogue != swiglu || out % 8 == 0",
           // Outputs that a thread stores are adjacent.
           "epilogue != add_rms || split_k || one_group",
           if_else(Expression("one_group"), "row_blocks * splits <= sms * blocks_per_sm",
                   "!split_k || row_blocks * splits > sms * blocks_per_sm"),
           "registers * blocks_per_sm * 32 * (warps_m * warps_k + 4) <= 65536", kPdlConstraint})
    v.constraints.push_back(constraint);
  return v;
}

std::vector<Variant> linear_streaming_mma() { return {mma_bulk_copy(), mma_cp_async()}; }

}  // namespace warptune
