// CUDA variants of softmax, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> softmax_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block per row reads elements one by one, the row three times.",
          .parameters = {block_parameter()},
          .stages = {{.file = "softmax/naive.cu",
                      .kernel = "softmax_naive<{dtype}, {q_heads}, {q_len}, {kv_len}, {mask}, {block}>",
                      .geometry = row_launch("batch * q_heads * q_len")}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized loads, one pass: the row stays in registers between maximum, sum and result.",
          .parameters = {{"block", {32, 64, 128, 256, 512, 1024}, "threads per row"},
                         {"rows", {1, 2, 4, 8}, "rows per block"},
                         vec_parameter(),
                         cache_hint_parameter()},
          .constraints =
              vec_constraints("kv_len", {"kv_len <= 64 * block", "block == 32 || block < 2 * kv_len",
                                         "rows == 1 || (block == 32 && rows <= batch * q_heads * q_len)"}),
          .stages = {{.file = "softmax/vectorized.cu",
                      .kernel = "softmax_vectorized<{dtype}, {q_heads}, {q_len}, {kv_len}, {mask}, {block}, "
                                "{rows}, {vec}, {cache_hint}>",
                      .geometry = {.grid = {"ceil_div(batch * q_heads * q_len, rows)"},
                                   .block = {"block * rows"}}}},
      },
  };
}

}  // namespace warptune
