// CUDA variants of rms_norm, in rising difficulty.
#include "variants/helpers/norm.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> rms_norm_cuda() {
  auto variants = norm_variants("rms_norm", 64);
  // A variant that add_rms_norm does not have is added here (docs/adding-a-variant.md).
  return variants;
}

}  // namespace warptune
