#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op add_rms_norm();
std::vector<Variant> add_rms_norm_cuda();
std::vector<Variant> add_rms_norm_host();
}  // namespace warptune
