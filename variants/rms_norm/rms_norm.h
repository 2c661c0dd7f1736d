#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op rms_norm();
std::vector<Variant> rms_norm_cuda();
std::vector<Variant> rms_norm_host();
}  // namespace warptune
