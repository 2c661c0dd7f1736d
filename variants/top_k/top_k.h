#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op top_k();
std::vector<Variant> top_k_cuda();
std::vector<Variant> top_k_host();
}  // namespace warptune
