// CUDA variants of rms_norm, in rising difficulty.
#include "variants/helpers/norm.h"
#include "variants/rms_norm/rms_norm.h"

namespace warptune {

std::vector<Variant> rms_norm_cuda() {
  auto variants = norm_variants(
      "rms_norm",
      {.naive = "One block per token reads elements one by one, the row twice.",
       .vectorized =
           "Vectorized loads, one pass: rows stay in registers; one block reduction for several tokens.",
       .warp_per_row = "One warp per token, reductions by shuffles only, no barrier."},
      64);
  return variants;
}

}  // namespace warptune
