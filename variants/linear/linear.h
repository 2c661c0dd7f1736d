#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op linear();
std::vector<Variant> linear_cuda();
std::vector<Variant> linear_streaming_mma();
std::vector<Variant> linear_wgmma();
std::vector<Variant> linear_host();
#if WARPTUNE_HAS_CUBLASLT
std::vector<Variant> linear_vendor();
#else
inline std::vector<Variant> linear_vendor() { return {}; }
#endif
/// A constraint: the variant computes no half of an RMSNorm that is split between two GEMMs.
inline const char* const kNoSplitNorm = "prologue < 2 && epilogue < 4";
/// The same variants for plain GEMMs only.
std::vector<Variant> unfused(std::vector<Variant> variants);
}  // namespace warptune
