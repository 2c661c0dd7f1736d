#pragma once
#include <algorithm>

#include "harness/core/variant.h"

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

/// What a kernel is specialised for (kernels' problem.cuh), and the bytes of a row of K or V in constraints.
inline const std::string kDecodeProblem =
    "warptune::DecodeProblem<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {k_layout}, {append}, {kv_dtype}, "
    "{kv_scale}, "
    "{page_size}, {window}, {score_bias}, {lse}, {epilogue}>";
inline const std::string kCacheRow = "head_dim * max(1, dtype_bytes * (kv_dtype == 0))";

/// The order of the labels of the dims `score_bias` and `epilogue`.
enum class ScoreBias { none, alibi, additive };
enum class Epilogue { none, smooth, quantize };

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
