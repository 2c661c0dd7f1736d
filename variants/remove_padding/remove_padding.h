#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op remove_padding();
std::vector<Variant> remove_padding_cuda();
std::vector<Variant> remove_padding_host();
}  // namespace warptune
