#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op causal_mask();
std::vector<Variant> causal_mask_cuda();
std::vector<Variant> causal_mask_host();
}  // namespace warptune
