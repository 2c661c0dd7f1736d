#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op softmax();
std::vector<Variant> softmax_cuda();
std::vector<Variant> softmax_host();
}  // namespace warptune
