#pragma once
#include "core/variant.h"

namespace warptune {
Op attention_decode();
std::vector<Variant> attention_decode_cuda();
std::vector<Variant> attention_decode_bulk();
std::vector<Variant> attention_decode_host();
#if WARPTUNE_HAS_CUBLASLT
std::vector<Variant> attention_decode_vendor();
#else
inline std::vector<Variant> attention_decode_vendor() { return {}; }
#endif
#if WARPTUNE_HAS_CUDNN
std::vector<Variant> attention_decode_cudnn();
#else
inline std::vector<Variant> attention_decode_cudnn() { return {}; }
#endif
}  // namespace warptune
