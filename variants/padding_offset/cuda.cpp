// CUDA variants of padding_offset, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> padding_offset_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One thread walks over all sequences.",
          .stages = {{.file = "padding_offset/naive.cu",
                      .kernel = "padding_offset_naive",
                      .geometry = LaunchExpressions{}}},
      },
      {
          .name = "scan",
          .idea = "Block-wide prefix sum; the warps of several blocks write the offsets.",
          .parameters = {block_parameter(), {"blocks", {1, 4, 16, 64}, "blocks that write offsets"}},
          .constraints = {"blocks == 1 || blocks * block <= 32 * batch"},
          .stages = {{.file = "padding_offset/scan.cu",
                      .kernel = "padding_offset_scan<{block}>",
                      .geometry = row_launch("blocks")}},
      },
  };
}

}  // namespace warptune
