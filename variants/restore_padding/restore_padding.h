#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op restore_padding();
std::vector<Variant> restore_padding_cuda();
std::vector<Variant> restore_padding_host();
}  // namespace warptune
