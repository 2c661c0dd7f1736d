// CUDA variants of add_rms_norm, in rising difficulty.
#include "variants/add_rms_norm/add_rms_norm.h"
#include "variants/helpers/norm.h"

namespace warptune {

std::vector<Variant> add_rms_norm_cuda() {
  return norm_variants(
      "add_rms_norm",
      {.naive = "One block per token reads elements one by one and the sum back from memory.",
       .vectorized =
           "Vectorized loads, one pass: sums stay in registers; one block reduction for several tokens.",
       .warp_per_row = "One warp per token, reductions by shuffles only, no barrier."},
      32);
}

}  // namespace warptune
