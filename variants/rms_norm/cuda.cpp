// How rms_norm runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/norm.h"
#include "variants/rms_norm/rms_norm.h"

namespace warptune {

std::vector<Variant> rms_norm_cuda() {
  auto variants = norm_variants("rms_norm",
                                {.naive = "block per token, one element at a time, row read twice",
                                 .vectorized = "wide loads, rows kept in registers, block reduce",
                                 .warp_per_row = "warp per token, row kept in registers, shuffles only"},
                                64);
  return variants;
}

}  // namespace warptune
