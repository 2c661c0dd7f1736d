// How add_rms_norm runs on the GPU: an index of ideas in rising difficulty.
#include "variants/add_rms_norm/add_rms_norm.h"
#include "variants/helpers/norm.h"

namespace warptune {

std::vector<Variant> add_rms_norm_cuda() {
  return norm_variants("add_rms_norm",
                       {.naive = "block per token, one element at a time, sum read back",
                        .vectorized = "wide loads, sums kept in registers, block reduce",
                        .warp_per_row = "warp per token, sum kept in registers, shuffles only"},
                       32);
}

}  // namespace warptune
