#pragma once
// Parameters, constraints and launches that the memory-bound ops share.
#include "harness/core/variant.h"

namespace warptune {

inline Parameter block_parameter() { return {"block", {64, 128, 256, 512, 1024}, "threads per block"}; }
inline Parameter vec_parameter() { return {"vec", {2, 4, 8}, "elements per vectorized access, at most"}; }
inline Parameter unroll_parameter() { return {"unroll", {1, 2, 4, 8}, "vectors in flight per thread"}; }
inline Parameter pdl_parameter() { return {"pdl", {0, 1}, "programmatic dependent launch"}; }
inline const Expression kPdlConstraint = "pdl == 0 || has_pdl";

/// The dynamic shared memory of a kernel that needs `bytes`. Where `one_block` is true, dependent launch pads
/// it to half of an SM's, which limits the occupancy to one block: else the first SMs that the predecessor
/// leaves run two blocks of a persistent grid, and others none.
inline Expression padded_shared_bytes(const Expression& bytes, const Expression& one_block) {
  return if_else(one_block && "pdl" && 2 * bytes < "shared_per_block", "shared_per_block // 2", bytes);
}

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

/// Those of vec_parameter(), then others. A vector has at most 16 bytes and divides the row. Rows of odd
/// length keep one value, the narrowest.
inline std::vector<Expression> vec_constraints(const Expression& length, std::vector<Expression> others) {
  others.insert(others.begin(), {"vec * dtype_bytes <= 16", length % "vec" == 0 || "vec == 2"});
  return others;
}

/// One block per row.
inline LaunchExpressions row_launch(const Expression& rows, const Expression& pdl = 0) {
  return {.grid = {rows}, .block = {"block"}, .pdl = pdl};
}
/// One thread per element.
inline LaunchExpressions element_launch(const Expression& elements) {
  return {.grid = {ceil_div(elements, "block")}, .block = {"block"}};
}
/// Rows of `length` elements as one run of vectors of `vec` elements, `unroll` per thread.
inline LaunchExpressions vector_launch(const Expression& rows, const Expression& length,
                                       const Expression& pdl = 0) {
  const Expression vec = if_else(length % "vec" == 0, "vec", 1);
  return {.grid = {ceil_div(rows * (length / vec), "block * unroll")}, .block = {"block"}, .pdl = pdl};
}

}  // namespace warptune
