#pragma once
// Tensors and cost that argmax and top_k share.
#include "harness/core/op.h"

namespace warptune {

/// [batch, vocab]: the output of the lm_head.
inline TensorSpec logits_spec(const Problem& p) {
  return {.name = "logits",
          .dtype = p.dtype,
          .shape = {p["batch"], p["vocab"]},
          .cache = CacheState::hot,
          .scale = 8.0f};
}

/// [batch]: the output.
inline TensorSpec ids_spec(const Problem& p) {
  return {.name = "ids",
          .dtype = DType::int32,
          .shape = {p["batch"]},
          .role = Role::output,
          .cache = CacheState::hot};
}

/// Every logit is read once, an id is written per row; `more` bytes in addition.
inline Cost sampling_cost(const Problem& p, double more = 0) {
  const auto n = static_cast<double>(p["batch"] * p["vocab"]);
  return {.bytes = n * static_cast<double>(size_of(p.dtype)) + more + 4 * static_cast<double>(p["batch"]),
          .flops = n};
}

}  // namespace warptune
