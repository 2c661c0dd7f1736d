#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op advance();
std::vector<Variant> advance_cuda();
std::vector<Variant> advance_host();
}  // namespace warptune
