// CUDA variants of logits_dot_v, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/logits_dot_v/logits_dot_v.h"

namespace warptune {
namespace {

const std::string kShape = "{dtype}, {q_heads}, {kv_heads}, {head_dim}, {block}";
const Parameter kLanes{"threads_per_value", {4, 8, 16, 32}, "threads per row of V"};
const Parameter kHeads{"heads_per_block", {1, 2, 4, 8}, "query heads that share the rows of V"};

/// Rows of V are whole vectors of 16 bytes. Accumulators fit the registers, and the sums of the warps fit
/// shared memory.
std::vector<std::string> row_constraints(std::vector<std::string> more) {
  more.insert(more.end(), {"head_dim * dtype_bytes % 16 == 0",
                           "threads_per_value == 4 || threads_per_value * 16 <= head_dim * dtype_bytes",
                           "(q_heads / kv_heads) % heads_per_block == 0",
                           "heads_per_block * head_dim <= 64 * threads_per_value",
                           "block * heads_per_block * head_dim <= 24576 * threads_per_value",
                           "block / 32 * heads_per_block * head_dim <= 8192", kPdlConstraint});
  return more;
}

std::int64_t splits(const Problem& p, const Config& c) { return ceil_div(p["context"], c["keys_per_split"]); }

Variant split_kv() {
  return {.name = "split_kv",
          .idea =
              "Split-KV: blocks reduce over parts of the keys, query heads of a group share the rows of V; "
              "last-block reduction.",
          .parameters = {{"block", {64, 128, 256}, "threads per block"},
                         {"keys_per_split", {64, 128, 256, 512, 1024, 4096}, "keys per split"},
                         kLanes,
                         {"unroll", {1, 2, 4, 8}, "rows in flight per thread"},
                         kHeads,
                         pdl_parameter()},
          .constraints = row_constraints({
              "keys_per_split < 2 * context || keys_per_split == 64",
              "unroll * block <= keys_per_split * threads_per_value",
              // At most 128 bytes in flight per thread.
              "unroll * head_dim * dtype_bytes <= 128 * threads_per_value",
          }),
          .stages = {{"logits_dot_v/split_kv.cu",
                      "logits_dot_v_split_kv<" + kShape +
                          ", {splits}, {keys_per_split}, {threads_per_value}, {unroll}, {heads_per_block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(splits(p, c)),
                                               as_unsigned(p["q_heads"] / c["heads_per_block"]),
                                               as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
          .constants =
              [](const Problem& p, const Config& c) {
                return Assignment{{"splits", splits(p, c)}};
              },
          .workspace_bytes = [](const Problem& p, const Config& c) -> std::int64_t {
            const std::int64_t rows = p["batch"] * p["q_heads"];
            if (splits(p, c) == 1) return 0;
            return rows * splits(p, c) * p["head_dim"] * 4 + rows / c["heads_per_block"] * 4;
          }};
}

/// The stages of `multistage`.
std::int64_t tile_bytes(const Problem& p, const Config& c) {
  return c["stages"] * c["tile_kv"] * p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype));
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
          .constraints = row_constraints({
              "tile_kv * threads_per_value >= block",
              "tile_kv == 16 || (stages - 1) * tile_kv < 2 * context",
          }),
          .resources =
              [](const Problem& p, const Config& c) {
                const auto sums = 4 * (c["block"] / 32) * c["heads_per_block"] * p["head_dim"];
                return LaunchResources{.shared_bytes = tile_bytes(p, c) + sums};
              },
          .stages = {{"logits_dot_v/multistage.cu",
                      "logits_dot_v_multistage<" + kShape +
                          ", {tile_kv}, {stages}, {threads_per_value}, {heads_per_block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["q_heads"] / c["heads_per_block"]),
                                               as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .shared_bytes = tile_bytes(p, c),
                                      .pdl = c["pdl"] != 0};
                      }}}};
}

}  // namespace

std::vector<Variant> logits_dot_v_cuda() {
  return {{
              .name = "naive",
              .idea = "One block per query head, one thread per element of the head.",
              .parameters = {{"block", {32, 64, 128, 256}, "threads per block"}, pdl_parameter()},
              .constraints = {"block == 32 || block < 2 * head_dim", kPdlConstraint},
              .stages = {{"logits_dot_v/naive.cu", "logits_dot_v_naive<" + kShape + ">",
                          [](const Problem& p, const Config& c) {
                            return Launch{.grid = {as_unsigned(p["batch"] * p["q_heads"])},
                                          .block = {as_unsigned(c["block"])},
                                          .pdl = c["pdl"] != 0};
                          }}},
          },
          split_kv(),
          multistage()};
}

}  // namespace warptune
