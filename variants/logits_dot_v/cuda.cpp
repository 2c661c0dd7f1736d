// How logits_dot_v runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/logits_dot_v/logits_dot_v.h"

namespace warptune {
namespace {

const std::string kShape = "{dtype}, {q_heads}, {kv_heads}, {head_dim}, {block}";
const Parameter kLanes{"threads_per_value", {4, 8, 16, 32}, "lanes that share a row of V"};
const Parameter kHeads{"heads_per_block", {1, 2, 4, 8}, "query heads that share what is read"};

/// Whole 16-byte pieces, one or two per lane or few lanes; sums in a part of the registers, and in shared
/// memory.
std::vector<std::string> row_constraints(std::vector<std::string> more) {
  more.insert(more.end(), {"head_dim * dtype_bytes % 16 == 0",
                           "threads_per_value == 4 || threads_per_value * 16 <= head_dim * dtype_bytes",
                           "(q_heads / kv_heads) % heads_per_block == 0",
                           "heads_per_block * head_dim <= 64 * threads_per_value",
                           "block * heads_per_block * head_dim <= 24576 * threads_per_value",
                           "block / 32 * heads_per_block * head_dim <= 8192", "pdl == 0 || arch >= 90"});
  return more;
}

std::int64_t splits(const Problem& p, const Config& c) { return ceil_div(p["context"], c["keys_per_block"]); }

Variant split_keys() {
  return {
      .name = "split_keys",
      .idea = "keys split over blocks, lanes per row of V with 16-byte loads, heads of a group sharing rows",
      .parameters = {{"block", {64, 128, 256}, "threads per block"},
                     {"keys_per_block", {64, 128, 256, 512, 1024, 4096}, "keys of a split"},
                     kLanes,
                     {"unroll", {1, 2, 4, 8}, "rows in flight per group of lanes"},
                     kHeads,
                     pdl_parameter()},
      .constraints = row_constraints({
          "keys_per_block < 2 * context || keys_per_block == 64",
          "unroll * block <= keys_per_block * threads_per_value",
          // Bytes in flight per lane: up to 128.
          "unroll * head_dim * dtype_bytes <= 128 * threads_per_value",
      }),
      .stages = {{"logits_dot_v/split_keys.cu",
                  "logits_dot_v_split_keys<" + kShape +
                      ", {splits}, {keys_per_block}, {threads_per_value}, {unroll}, {heads_per_block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {static_cast<unsigned>(splits(p, c)),
                                           static_cast<unsigned>(p["q_heads"] / c["heads_per_block"]),
                                           static_cast<unsigned>(p["batch"])},
                                  .block = {static_cast<unsigned>(c["block"])},
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

Variant staged() {
  return {.name = "staged",
          .idea = "rows of V through shared memory with cp.async, several tiles ahead",
          .parameters = {{"block", {64, 128, 256}, "threads per block"},
                         {"tile", {16, 32, 64}, "keys of a tile"},
                         {"stages", {2, 3, 4}, "tiles in shared memory"},
                         kLanes,
                         kHeads,
                         pdl_parameter()},
          .constraints = row_constraints({
              "stages * tile * head_dim * dtype_bytes + block / 8 * heads_per_block * head_dim <= "
              "shared_per_block",
              "tile * threads_per_value >= block",
              "tile == 16 || (stages - 1) * tile < 2 * context",
          }),
          .stages = {{"logits_dot_v/staged.cu",
                      "logits_dot_v_staged<" + kShape +
                          ", {tile}, {stages}, {threads_per_value}, {heads_per_block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {static_cast<unsigned>(p["q_heads"] / c["heads_per_block"]),
                                               static_cast<unsigned>(p["batch"])},
                                      .block = {static_cast<unsigned>(c["block"])},
                                      .shared_bytes = c["stages"] * c["tile"] * p["head_dim"] *
                                                      static_cast<std::int64_t>(size_of(p.dtype)),
                                      .pdl = c["pdl"] != 0};
                      }}}};
}

}  // namespace

std::vector<Variant> logits_dot_v_cuda() {
  return {{
              .name = "naive",
              .idea = "block per query head, thread per element of the head",
              .parameters = {{"block", {32, 64, 128, 256}, "threads per block"}, pdl_parameter()},
              .constraints = {"block == 32 || block < 2 * head_dim", "pdl == 0 || arch >= 90"},
              .stages = {{"logits_dot_v/naive.cu", "logits_dot_v_naive<" + kShape + ">",
                          [](const Problem& p, const Config& c) {
                            return Launch{.grid = {static_cast<unsigned>(p["q_heads"]),
                                                   static_cast<unsigned>(p["batch"])},
                                          .block = {static_cast<unsigned>(c["block"])},
                                          .pdl = c["pdl"] != 0};
                          }}},
          },
          split_keys(),
          staged()};
}

}  // namespace warptune
