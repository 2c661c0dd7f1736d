#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op embedding();
std::vector<Variant> embedding_cuda();
std::vector<Variant> embedding_host();
}  // namespace warptune
