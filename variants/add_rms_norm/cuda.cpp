// CUDA variants of add_rms_norm, in rising difficulty: the kernels of rms_norm with a residual.
#include "variants/helpers/norm.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> add_rms_norm_cuda() { return norm_variants("add_rms_norm", 32); }

}  // namespace warptune
