#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>

#include "harness/core/variant.h"
#include "kernels/attention_decode/args.h"
#include "kernels/common/near_positions.h"

namespace warptune {
Op attention_decode();
std::vector<Variant> attention_decode_cuda();
std::vector<Variant> attention_decode_pipelined();
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

/// The kernels' DecodeProblem (problem.cuh). It needs kFar.
inline const std::string kDecodeProblem =
    "warptune::DecodeProblem<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {k_layout}, {append}, {kv_dtype}, "
    "{kv_scale}, "
    "{page_size}, {window}, {score_bias}, {lse}, {epilogue}, {style} == 1, {scaling} == 2, {far} == 1, "
    "{qk_norm} == 1>";

/// Derived values of the variants.
inline const DerivedValue kFar{"far", Expression("append") && Expression("context") > kNearPositions,
                               "whether the append reduces angles in fp64"};
inline const DerivedValue kRowBytes{"row_bytes", "head_dim * (kv_dtype == same ? dtype_bytes : 1)",
                                    "bytes of a row of K or V in the cache"};
inline const DerivedValue kHeadsPerGroup{"heads_per_group", "q_heads / kv_heads",
                                         "query heads that share a KV head"};
inline const DerivedValue kVisibleKeys{"visible_keys", "window == 0 ? context : min(context, window)",
                                       "keys of the longest sequence inside the window"};

/// How splits are combined: the parameter of a variant that offers these ways. The values are those of
/// Combine in every variant.
inline Parameter combine_parameter(std::initializer_list<Combine> ways) {
  Parameter p{
      "combine", {}, "how the results of splits are combined", {"kernel", "last_block", "cluster", "ll"}};
  for (const Combine way : ways) p.values.push_back(static_cast<std::int64_t>(way));
  return p;
}
/// Whether the output projection and the residual add are part of the problem. Most variants lack them.
inline bool projects(const Problem& p) { return static_cast<Epilogue>(p["epilogue"]) == Epilogue::project; }
inline const Expression kNoProjection = "epilogue != project";
/// The workspace of variants that leave the rows there before they are projected.
inline const Expression kRowsWorkspace = "epilogue == project ? batch * q_heads * head_dim * dtype_bytes : 0";

/// How the caches and `out` are stored.
inline DType cache_dtype(const Problem& p) {
  constexpr DType kQuantized[] = {DType::int8, DType::fp8};
  return p["kv_dtype"] == 0 ? p.dtype : kQuantized[p["kv_dtype"] - 1];
}
inline DType decode_out_dtype(const Problem& p) {
  return static_cast<Epilogue>(p["epilogue"]) == Epilogue::quantize ? DType::int8 : p.dtype;
}
/// Keys that a sequence has room for.
inline std::int64_t cache_capacity(const Problem& p) {
  const std::int64_t step = p["page_size"] == 0 ? 16 : p["page_size"];
  return ceil_div(p["context"], step) * step;
}
}  // namespace warptune
