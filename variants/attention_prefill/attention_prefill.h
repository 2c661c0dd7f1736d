#pragma once
#include "core/variant.h"

namespace warptune {
Op attention_prefill();
std::vector<Variant> attention_prefill_cuda();
std::vector<Variant> attention_prefill_wgmma();
std::vector<Variant> attention_prefill_host();
}  // namespace warptune
