#pragma once
#include "core/variant.h"

namespace warptune {
Op attention_decode();
std::vector<Variant> attention_decode_cuda();
std::vector<Variant> attention_decode_bulk();
std::vector<Variant> attention_decode_host();
}  // namespace warptune
