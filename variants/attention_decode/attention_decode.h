#pragma once
#include <algorithm>
#include <initializer_list>
#include <string>

#include "harness/core/variant.h"
#include "kernels/attention_decode/args.h"

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

/// The kernels' DecodeProblem (problem.cuh), and the bytes of a row of K or V in constraints.
inline const std::string kDecodeProblem =
    "warptune::DecodeProblem<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {k_layout}, {append}, {kv_dtype}, "
    "{kv_scale}, "
    "{page_size}, {window}, {score_bias}, {lse}, {epilogue}, {style} == 1, {scaling} == 2, {far} == 1>";
inline const std::string kCacheRow = "head_dim * max(1, dtype_bytes * (kv_dtype == 0))";

/// Adds the placeholder {far} of kDecodeProblem to variants.
std::vector<Variant> with_far_positions(std::vector<Variant> variants);

/// How splits are combined: the parameter of a variant that offers these ways. The values are those of
/// Combine in every variant.
inline Parameter combine_parameter(std::initializer_list<Combine> ways) {
  Parameter p{
      "combine", {}, "how the results of splits are combined", {"kernel", "last_block", "cluster", "ll"}};
  for (const Combine way : ways) p.values.push_back(static_cast<std::int64_t>(way));
  return p;
}
inline bool combines_by(const Config& config, Combine way) {
  return config["combine"] == static_cast<std::int64_t>(way);
}
/// The same as a constraint.
inline std::string combine_is(Combine way) { return "combine == " + std::to_string(static_cast<int>(way)); }

/// Whether the output projection and the residual add are part of the problem. Most variants lack them.
inline bool projects(const Problem& p) { return static_cast<Epilogue>(p["epilogue"]) == Epilogue::project; }
/// The workspace of variants that leave the rows there before they are projected.
inline std::int64_t rows_workspace(const Problem& p, const Config&) {
  return projects(p) ? p["batch"] * p["q_heads"] * p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype))
                     : 0;
}
inline const std::string kNoProjection = "epilogue != " + std::to_string(static_cast<int>(Epilogue::project));

/// How the caches and `out` are stored.
inline DType cache_dtype(const Problem& p) {
  constexpr DType kQuantized[] = {DType::int8, DType::fp8};
  return p["kv_dtype"] == 0 ? p.dtype : kQuantized[p["kv_dtype"] - 1];
}
inline DType decode_out_dtype(const Problem& p) {
  return static_cast<Epilogue>(p["epilogue"]) == Epilogue::quantize ? DType::int8 : p.dtype;
}
/// Tiles of `tile` keys of each sequence, assigned round-robin to so many warps.
inline WorkDistribution round_robin_keys(const Problem& p, std::int64_t warps, std::int64_t tile) {
  const std::int64_t keys = p["window"] == 0 ? p["context"] : std::min(p["context"], p["window"]),
                     tiles = ceil_div(keys, warps * tile);
  return {.imbalance = static_cast<double>(tiles * warps * tile) / static_cast<double>(keys),
          .tiles_of_busiest_warp = static_cast<double>(tiles)};
}
/// Keys that a sequence has room for.
inline std::int64_t cache_capacity(const Problem& p) {
  const std::int64_t step = p["page_size"] == 0 ? 16 : p["page_size"];
  return ceil_div(p["context"], step) * step;
}
}  // namespace warptune
