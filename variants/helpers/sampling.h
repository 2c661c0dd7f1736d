#pragma once
// What the ops that choose a token share: their logits, the chosen ids, and the bytes of both.
#include "harness/core/op.h"

namespace warptune {

/// [batch, vocab], as the lm_head left them.
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

/// Every logit read once, an id written per row, and `more` bytes.
inline Cost sampling_cost(const Problem& p, double more = 0) {
  const auto n = static_cast<double>(p["batch"] * p["vocab"]);
  return {.bytes = n * static_cast<double>(size_of(p.dtype)) + more + 4 * static_cast<double>(p["batch"]),
          .flops = n};
}

}  // namespace warptune
