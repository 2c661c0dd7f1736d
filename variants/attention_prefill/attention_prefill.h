#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op attention_prefill();
std::vector<Variant> attention_prefill_cuda();
std::vector<Variant> attention_prefill_wgmma();
std::vector<Variant> attention_prefill_host();
#if WARPTUNE_HAS_CUBLASLT
std::vector<Variant> attention_prefill_vendor();
#else
inline std::vector<Variant> attention_prefill_vendor() { return {}; }
#endif
#if WARPTUNE_HAS_CUDNN
std::vector<Variant> attention_prefill_cudnn();
#else
inline std::vector<Variant> attention_prefill_cudnn() { return {}; }
#endif
}  // namespace warptune
