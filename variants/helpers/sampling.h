#pragma once
// Tensors and cost that argmax and top_k share.
#include "harness/core/op.h"
#include "variants/helpers/specs.h"

namespace warptune {

/// [batch, vocab]: the output of the lm_head.
inline TensorSpec logits_spec(const Problem& p) {
  return activation("logits", p.dtype, {p["batch"], p["vocab"]}, Role::input, 8);
}

/// [batch]: the output.
inline TensorSpec ids_spec(const Problem& p) {
  return activation("ids", DType::int32, {p["batch"]}, Role::output);
}

/// Every logit is read once, an id is written per row; `more` bytes in addition.
inline Cost sampling_cost(const Problem& p, double more = 0) {
  const double n = p["batch"] * p["vocab"];
  return {.bytes = n * size_of(p.dtype) + more + 4.0 * p["batch"], .flops = n};
}

}  // namespace warptune
