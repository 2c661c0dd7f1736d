#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op swiglu();
std::vector<Variant> swiglu_cuda();
std::vector<Variant> swiglu_host();
}  // namespace warptune
