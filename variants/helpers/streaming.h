#pragma once
// Parameters, constraints and launches that the memory-bound ops share.
#include "harness/core/variant.h"
#include "kernels/common/vec_width.h"

namespace warptune {

inline Parameter block_parameter() { return {"block", {64, 128, 256, 512, 1024}, "threads per block"}; }
inline Parameter vec_parameter() { return {"vec", {2, 4, 8}, "elements per vectorized access, at most"}; }
inline Parameter unroll_parameter() { return {"unroll", {1, 2, 4, 8}, "vectors in flight per thread"}; }
inline Parameter pdl_parameter() { return {"pdl", {0, 1}, "programmatic dependent launch"}; }
inline const std::string kPdlConstraint = "pdl == 0 || has_pdl";

/// The values are kCacheDefault, kCacheStreaming and kCacheEvictFirst (kernels/common/cache_hint.cuh).
inline Parameter cache_hint_parameter(bool evict_first = false) {
  Parameter p{"cache_hint", {0, 1}, "L2 hint: none, streaming stores", {"none", "streaming"}};
  if (evict_first) {
    p.doc += ", or evict_first loads";
    p.values.push_back(2);
    p.labels.push_back("evict_first");
  }
  return p;
}

/// A vector has at most 16 bytes and divides the row. Rows of odd length keep one value, the narrowest.
inline std::vector<std::string> vec_constraints(const std::string& length) {
  return {"vec * dtype_bytes <= 16", length + " % vec == 0 || vec == 2"};
}

/// One block per row.
inline Launch row_launch(std::int64_t rows, const Config& c) {
  return {.grid = {as_unsigned(rows)}, .block = {as_unsigned(c["block"])}, .pdl = c.get("pdl", 0) != 0};
}
/// Rows of `length` elements as one run of vectors of `vec` elements, `unroll` per thread (both 1 where the
/// variant has no such parameter).
inline Launch flat_launch(std::int64_t rows, std::int64_t length, const Config& c) {
  const std::int64_t vec = vec_width(static_cast<int>(c.get("vec", 1)), length);
  return {.grid = {blocks_for(rows * (length / vec), c["block"] * c.get("unroll", 1))},
          .block = {as_unsigned(c["block"])},
          .pdl = c.get("pdl", 0) != 0};
}

}  // namespace warptune
