// CUDA variants of argmax, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> argmax_cuda() {
  const Parameter block{"block", {128, 256, 512, 1024}, "threads per block"};
  return {
      {
          .name = "naive",
          .idea = "One block per row reads elements one by one.",
          .parameters = {block},
          .stages = {{.file = "argmax/naive.cu",
                      .kernel = "argmax_naive<{dtype}, {vocab}, {block}>",
                      .geometry = row_launch("batch")}},
      },
      {
          .name = "vectorized",
          .idea = "Several blocks per row, vectorized loads, last-block reduction.",
          .parameters = {block,
                         {"blocks_per_row", {1, 2, 4, 8, 16, 32, 64}, "blocks per row"},
                         {"unroll", {4, 8, 16}, "loads in flight per thread"},
                         pdl_parameter()},
          .constraints = {"blocks_per_row * block <= max(vocab, block)",
                          // More loads in flight only where a thread has them.
                          "unroll == 4 || unroll / 2 * 16 * block * blocks_per_row < vocab * dtype_bytes",
                          "batch <= 65535", kPdlConstraint},
          .stages = {{.file = "argmax/vectorized.cu",
                      .kernel = "argmax_vectorized<{dtype}, {vocab}, {block}, {blocks_per_row}, {unroll}>",
                      .geometry = {.grid = {"blocks_per_row", "batch"}, .block = {"block"}, .pdl = "pdl"}}},
          .workspace = "16 * batch",
      },
  };
}

}  // namespace warptune
