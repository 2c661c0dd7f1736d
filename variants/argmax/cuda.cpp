// CUDA variants of argmax, in rising difficulty.
#include "variants/argmax/argmax.h"
#include "variants/helpers/streaming.h"

namespace warptune {

std::vector<Variant> argmax_cuda() {
  const Parameter block{"block", {128, 256, 512, 1024}, "threads per block"};
  return {
      {
          .name = "naive",
          .idea = "One block per row reads elements one by one.",
          .parameters = {block},
          .stages = {{"argmax/naive.cu", "argmax_naive<{dtype}, {vocab}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["batch"])}, .block = {as_unsigned(c["block"])}};
                      }}},
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
          .stages = {{"argmax/vectorized.cu",
                      "argmax_vectorized<{dtype}, {vocab}, {block}, {blocks_per_row}, {unroll}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(c["blocks_per_row"]), as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
          .workspace_bytes = [](const Problem& p, const Config&) { return 16 * p["batch"]; },
      },
  };
}

}  // namespace warptune
