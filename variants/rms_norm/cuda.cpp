// CUDA variants of rms_norm, in rising difficulty.
#include "variants/helpers/norm.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> rms_norm_cuda() { return norm_variants("rms_norm", 64); }

}  // namespace warptune
