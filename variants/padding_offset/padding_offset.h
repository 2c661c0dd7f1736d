#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op padding_offset();
std::vector<Variant> padding_offset_cuda();
std::vector<Variant> padding_offset_host();
}  // namespace warptune
