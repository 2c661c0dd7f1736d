#pragma once
// Parameters and launches that the memory-bound ops share.
#include "harness/core/variant.h"
#include "kernels/common/vec_width.h"

namespace warptune {

inline Parameter block_parameter() { return {"block", {64, 128, 256, 512, 1024}, "threads per block"}; }
inline Parameter vec_parameter() { return {"vec", {2, 4, 8}, "elements per access"}; }
inline Parameter unroll_parameter() { return {"unroll", {1, 2, 4, 8}, "accesses in flight per thread"}; }
inline Parameter pdl_parameter() { return {"pdl", {0, 1}, "programmatic dependent launch"}; }
/// The order is that of kCacheDefault, kCacheStreaming, kCacheEvictFirst (kernels/common/cache_hint.cuh).
inline Parameter store_parameter(bool inputs_first_out = false) {
  Parameter p{"store", {0, 1}, "cache policy of what passes through", {"plain", "streaming"}};
  if (inputs_first_out) {
    p.values.push_back(2);
    p.labels.push_back("inputs_first_out");
  }
  return p;
}

/// An access has at most 16 bytes and divides the row; rows of odd length keep the narrowest.
inline std::vector<std::string> vec_constraints(const std::string& length) {
  return {"vec * dtype_bytes <= 16", length + " % vec == 0 || vec == 2"};
}

/// A block per row.
inline Launch row_launch(std::int64_t rows, const Config& c) {
  return {.grid = {static_cast<unsigned>(rows)},
          .block = {static_cast<unsigned>(c["block"])},
          .pdl = c.get("pdl", 0) != 0};
}
/// Rows of `length` elements laid end to end, `unroll` pieces of `vec` elements (1 where not given) per
/// thread.
inline Launch flat_launch(std::int64_t rows, std::int64_t length, const Config& c) {
  const std::int64_t vec = vec_width(static_cast<int>(c.get("vec", 1)), length);
  return {.grid = {blocks_for(rows * (length / vec), c["block"] * c.get("unroll", 1))},
          .block = {static_cast<unsigned>(c["block"])},
          .pdl = c.get("pdl", 0) != 0};
}

}  // namespace warptune
