// How advance runs on the GPU: an index of ideas in rising difficulty.
#include "variants/advance/advance.h"
#include "variants/helpers/streaming.h"

namespace warptune {

std::vector<Variant> advance_cuda() {
  return {
      {
          .name = "naive",
          .idea = "one block, a thread per sequence in turn",
          .parameters = {{"block", {32, 64, 128, 256}, "threads"}, pdl_parameter()},
          .constraints = {"block == 32 || block < 2 * batch", "pdl == 0 || arch >= 90"},
          .stages = {{"advance/naive.cu", "advance_naive<{block}>",
                      [](const Problem&, const Config& c) { return row_launch(1, c); }}},
      },
  };
}

}  // namespace warptune
