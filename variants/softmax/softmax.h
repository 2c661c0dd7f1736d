#pragma once
#include "core/variant.h"

namespace warptune {
Op softmax();
std::vector<Variant> softmax_cuda();
std::vector<Variant> softmax_host();
}  // namespace warptune
