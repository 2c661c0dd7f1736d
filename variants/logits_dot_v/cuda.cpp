// CUDA variants of logits_dot_v, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {
namespace {

const std::string kShape = "{dtype}, {q_heads}, {kv_heads}, {head_dim}, {block}";
const Parameter kLanes{"threads_per_value", {4, 8, 16, 32}, "threads per row of V"};
const Parameter kHeads{"heads_per_block", {1, 2, 4, 8}, "query heads that share the rows of V"};

/// Rows of V are whole vectors of 16 bytes. Accumulators fit the registers, and the sums of the warps fit
/// shared memory.
std::vector<Expression> row_constraints(std::vector<Expression> more) {
  more.insert(more.end(), {"head_dim * dtype_bytes % 16 == 0",
                           "threads_per_value == 4 || threads_per_value * 16 <= head_dim * dtype_bytes",
                           "(q_heads / kv_heads) % heads_per_block == 0",
                           "heads_per_block * head_dim <= 64 * threads_per_value",
                           "block * heads_per_block * head_dim <= 24576 * threads_per_value",
                           "block / 32 * heads_per_block * head_dim <= 8192", kPdlConstraint});
  return more;
}

Variant split_kv() {
  return {
      .name = "split_kv",
      .idea =
          "Split-KV: blocks reduce over parts of the keys, query heads of a group share the rows of V; "
          "last-block reduction.",
      .parameters = {{"block", {64, 128, 256}, "threads per block"},
                     {"keys_per_split", {64, 128, 256, 512, 1024, 4096}, "keys per split"},
                     kLanes,
                     {"unroll", {1, 2, 4, 8}, "rows in flight per thread"},
                     kHeads,
                     pdl_parameter()},
      .derived = {{"splits", "ceil_div(context, keys_per_split)", "blocks per group of heads"},
                  {"rows", "batch * q_heads", "outputs of the batch"}},
      .constraints = row_constraints({
          "keys_per_split < 2 * context || keys_per_split == 64",
          "unroll * block <= keys_per_split * threads_per_value",
          // At most 128 bytes in flight per thread.
          "unroll * head_dim * dtype_bytes <= 128 * threads_per_value",
      }),
      .stages = {{.file = "logits_dot_v/split_kv.cu",
                  .kernel = "logits_dot_v_split_kv<" + kShape +
                            ", {splits}, {keys_per_split}, {threads_per_value}, {unroll}, {heads_per_block}>",
                  .geometry = {.grid = {"splits", "q_heads / heads_per_block", "batch"},
                               .block = {"block"},
                               .pdl = "pdl"}}},
      .workspace = "splits == 1 ? 0 : rows * splits * head_dim * 4 + rows / heads_per_block * 4"};
}

Variant multistage() {
  return {.name = "multistage",
          .idea = "Multistage cp.async: tiles of V through several stages of shared memory.",
          .parameters = {{"block", {64, 128, 256}, "threads per block"},
                         {"tile_kv", {16, 32, 64}, "keys per tile"},
                         {"stages", {2, 3, 4}, "stages of the pipeline"},
                         kLanes,
                         kHeads,
                         pdl_parameter()},
          .derived = {{"stage_bytes", "stages * tile_kv * head_dim * dtype_bytes", "bytes of the stages"}},
          .constraints = row_constraints({
              "tile_kv * threads_per_value >= block",
              "tile_kv == 16 || (stages - 1) * tile_kv < 2 * context",
          }),
          // The stages and the sums of the warps.
          .limits = {.shared_bytes = "stage_bytes + 4 * (block / 32) * heads_per_block * head_dim"},
          .stages = {{.file = "logits_dot_v/multistage.cu",
                      .kernel = "logits_dot_v_multistage<" + kShape +
                                ", {tile_kv}, {stages}, {threads_per_value}, {heads_per_block}>",
                      .geometry = {.grid = {"q_heads / heads_per_block", "batch"},
                                   .block = {"block"},
                                   .shared_bytes = "stage_bytes",
                                   .pdl = "pdl"}}}};
}

}  // namespace

std::vector<Variant> logits_dot_v_cuda() {
  return {{
              .name = "naive",
              .idea = "One block per query head, one thread per element of the head.",
              .parameters = {{"block", {32, 64, 128, 256}, "threads per block"}, pdl_parameter()},
              .constraints = {"block == 32 || block < 2 * head_dim", kPdlConstraint},
              .stages = {{.file = "logits_dot_v/naive.cu",
                          .kernel = "logits_dot_v_naive<" + kShape + ">",
                          .geometry = row_launch("batch * q_heads", "pdl")}},
          },
          split_kv(),
          multistage()};
}

}  // namespace warptune
