#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op argmax();
std::vector<Variant> argmax_cuda();
std::vector<Variant> argmax_host();
}  // namespace warptune
