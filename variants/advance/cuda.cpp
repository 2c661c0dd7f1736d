// CUDA variants of advance, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> advance_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block; a thread takes sequences round-robin.",
          .parameters = {{"block", {32, 64, 128, 256}, "threads"}, pdl_parameter()},
          .constraints = {"block == 32 || block < 2 * batch", kPdlConstraint},
          .stages = {{.file = "advance/naive.cu",
                      .kernel = "advance_naive<{block}>",
                      .geometry = row_launch(1, "pdl")}},
      },
  };
}

}  // namespace warptune
