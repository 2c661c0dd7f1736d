#pragma once
#include <utility>

#include "harness/core/variant.h"

namespace warptune {
Op rope_append();
std::vector<Variant> rope_append_cuda();
std::vector<Variant> rope_append_host();

/// The element type of the caches, by the dim kv_dtype.
inline DType rope_cache_dtype(const Problem& p) {
  constexpr DType kQuantized[] = {DType::int8, DType::fp8};
  return p["kv_dtype"] == 0 ? p.dtype : kQuantized[p["kv_dtype"] - 1];
}
inline constexpr std::int64_t kStartSpread = 64;  // range of the starts of the sequences
/// The positions for which the cache of a problem has room.
inline const Expression kRopeCapacity =
    ceil_div(kStartSpread + Expression("start + ceil_div(tokens, batch)"), "max(1, page_size)") *
    "max(1, page_size)";
std::int64_t rope_capacity(const Problem& p);
/// The leading elements of a head that rotate.
inline std::int64_t rotary_dim(const Problem& p) {
  return p["rotary_dim"] == 0 ? p["head_dim"] : p["rotary_dim"];
}
/// The elements of a half-split pair of a head.
inline std::pair<std::int64_t, std::int64_t> half_split_pair(std::int64_t pair, std::int64_t head_dim,
                                                             std::int64_t rotary_dim) {
  const std::int64_t half = rotary_dim / 2;
  if (pair < half) return {pair, pair + half};
  return {pair + half, pair + half + (head_dim - rotary_dim) / 2};
}
}  // namespace warptune
