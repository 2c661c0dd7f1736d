#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op logits_dot_v();
std::vector<Variant> logits_dot_v_cuda();
std::vector<Variant> logits_dot_v_host();
}  // namespace warptune
