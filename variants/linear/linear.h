#pragma once
#include "harness/core/variant.h"

namespace warptune {
Op linear();
std::vector<Variant> linear_cuda();
std::vector<Variant> linear_streaming_mma();
std::vector<Variant> linear_wgmma();
std::vector<Variant> linear_packed();
std::vector<Variant> linear_host();
#if WARPTUNE_HAS_CUBLASLT
std::vector<Variant> linear_vendor();
#else
inline std::vector<Variant> linear_vendor() { return {}; }
#endif
/// A constraint: the variant computes no half of an RMSNorm that is split between two GEMMs.
inline const Expression kNoSplitNorm = "prologue != rms_scale && epilogue != add_rms";
/// The workspace of the epilogue argmax (kernels/linear/argmax.cuh).
inline const Expression kArgmaxWorkspace = "epilogue == argmax ? 8 * (tokens + 1) : 0";
/// A derived value of the variants that stream weights.
inline const DerivedValue kWeightRows{"weight_rows", "epilogue == swiglu ? 2 * out : out",
                                      "rows of the weight"};
/// The same variants for plain GEMMs only.
std::vector<Variant> unfused(std::vector<Variant> variants);
/// The same variants for weights of the dtype of x only.
std::vector<Variant> unquantized(std::vector<Variant> variants);
}  // namespace warptune
