#pragma once
// The KV cache of a problem with the dims q_heads, kv_heads, head_dim, k_layout and page_size: contiguous,
// [batch, kv_heads, capacity, head_dim], or paged, [pages, kv_heads, page_size, head_dim]. The rows of K of a
// head are [S, D] or [D/x, S, x] with x elements of 16 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/variant.h"

namespace warptune {

inline std::int64_t elements_of_16_bytes(DType dtype) { return 16 / size_of(dtype); }
inline double heads_per_kv_head(const Problem& p) { return 1.0 * p["q_heads"] / p["kv_heads"]; }
/// The largest code of a quantized cache.
inline float largest_code(DType stored) { return stored == DType::int8 ? 127 : 448; }

/// The shape of a cache. `parts` counts sequences, or the pages of a paged cache; `rows` those of a part.
struct KvCacheShape {
  std::int64_t parts, kv_heads, rows;
  DType dtype;

  /// `capacity`: keys of a sequence. A sequence has whole pages.
  KvCacheShape(const Problem& p, DType stored, std::int64_t capacity)
      : parts(p["batch"]), kv_heads(p["kv_heads"]), rows(capacity), dtype(stored) {
    const std::int64_t page = p["page_size"];
    if (page != 0) parts *= ceil_div(capacity, page), rows = page;
  }

  /// The tensors of K and V; `as` has the members that do not depend on the layout.
  TensorSpec keys(TensorSpec as, std::int64_t head_dim, bool is_dsx) const {
    const std::int64_t x = elements_of_16_bytes(dtype);
    as = values(as, head_dim);
    as.name = "k_cache";
    if (is_dsx) as.shape = {parts, kv_heads, head_dim / x, rows, x};
    return as;
  }
  TensorSpec values(TensorSpec as, std::int64_t head_dim) const {
    as.name = "v_cache";
    as.dtype = dtype;
    as.shape = {parts, kv_heads, rows, head_dim};
    return as;
  }
  /// A scale per row of K or V.
  std::vector<std::int64_t> scales() const { return {parts, kv_heads, rows}; }
};

/// Throws InputError for a layout that does not exist.
inline void check_kv_cache(const Problem& p, DType stored) {
  if (p["k_layout"] != 0 && p["head_dim"] % elements_of_16_bytes(stored) != 0)
    throw InputError(fmt::format("{}: k_layout=dsx needs heads of whole 16 bytes, not {} x {}", p.op,
                                 p["head_dim"], name_of(stored)));
  const std::int64_t page = p["page_size"];
  if (page != 0 && (page < 16 || page > 256 || !std::has_single_bit<std::uint64_t>(page)))
    throw InputError(
        fmt::format("{}: page_size is {}; it must be 0 (contiguous), 16, 32, 64, 128 or 256", p.op, page));
}

/// Page numbers below `count` in random order.
inline std::vector<std::int32_t> shuffled_pages(std::int64_t count, std::uint64_t seed) {
  std::vector<std::int32_t> pages(count);
  std::iota(pages.begin(), pages.end(), 0);
  for (std::size_t i = pages.size(); i > 1; --i) std::swap(pages[i - 1], pages[random_bits(seed, i) % i]);
  return pages;
}

/// The scale of a row of a quantized cache.
inline float row_scale(const std::vector<double>& row, DType stored) {
  double largest = 0;
  for (const double value : row) largest = std::max(largest, std::abs(value));
  return static_cast<float>(largest) / largest_code(stored);
}
/// Divides a row by its scale: in fp32 as every variant does, so that all round alike. Codes are unrounded.
inline void quantize(std::vector<double>& row, float scale, DType stored) {
  const float inverse = scale == 0 ? 0 : 1 / scale, largest = largest_code(stored);
  for (double& value : row) value = std::clamp(static_cast<float>(value) * inverse, -largest, largest);
}

}  // namespace warptune
