#pragma once
#include "core/variant.h"

namespace warptune {
Op advance();
std::vector<Variant> advance_cuda();
std::vector<Variant> advance_host();
}  // namespace warptune
