#pragma once
// The dims of an attention_decode problem by meaning, for the op and its fp64 reference.
#include <algorithm>
#include <cmath>

#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/kv_cache.h"

namespace warptune {

inline float scale_of(const Problem& p) { return 1.0f / std::sqrt(static_cast<float>(p["head_dim"])); }
inline bool quantized(const Problem& p) { return p["kv_dtype"] != 0; }
inline ScoreBias score_bias_of(const Problem& p) { return static_cast<ScoreBias>(p["score_bias"]); }
inline Epilogue epilogue_of(const Problem& p) { return static_cast<Epilogue>(p["epilogue"]); }
/// Elements of a 16-byte vector of the cache.
inline std::int64_t vector_elements(const Problem& p) { return elements_of_16_bytes(cache_dtype(p)); }
/// The first key inside the sliding window.
inline std::int64_t first_key(const Problem& p, std::int64_t length) {
  return p["window"] == 0 ? 0 : std::max<std::int64_t>(0, length - p["window"]);
}
inline constexpr float kOutScale = 100.0f;

/// The fp64 reference of one output row, and how far a variant may be from it (reference.cpp).
void decode_reference(const Problem& p, const Inputs& in, std::int64_t unit, Expected& out);
Tolerance decode_tolerance(const Problem& p);

}  // namespace warptune
