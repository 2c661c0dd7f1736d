#pragma once
// The variant `cudnn` of an attention op.
#include "harness/core/variant.h"
#include "variants/plain.h"
#include "variants/vendor/cudnn_attention.h"

namespace warptune {

/// Computes problems of `op` without optional features that keep `constraint`. OpArgs has q, k_cache,
/// v_cache, out, capacity and workspace; `lengths` returns its lengths, if the shape has_lengths. The second
/// tensor of the op is K.
template <class OpArgs>
Variant cudnn_variant(const Op& op, std::string idea, std::string constraint,
                      std::function<CudnnAttentionShape(const Problem&)> shape,
                      std::function<const int*(const OpArgs&)> lengths) {
  return {
      .name = "cudnn",
      .idea = std::move(idea),
      .parameters = {{"plan", {0, 1, 2, 3}, "index into the execution plans of cuDNN's heuristic"}},
      .constraints = {plain_problem(op), std::move(constraint), "head_dim % 8 == 0"},
      .dtypes = {DType::fp16, DType::bf16},
      .vendor = [=, tensors = op.tensors](const Problem& p, const Config& c) -> VendorFunction {
        const std::int64_t capacity = tensors(p, 0)[1].shape[2];
        return [lengths, attention = std::make_shared<CudnnAttention>(shape(p), capacity, c["plan"])](
                   const void* raw, void* stream) {
          const auto& a = *static_cast<const OpArgs*>(raw);
          attention->run({.q = a.q, .k = a.k_cache, .v = a.v_cache, .out = a.out, .lengths = lengths(a)},
                         a.capacity, a.workspace, stream);
        };
      },
      .workspace = CudnnAttention::kWorkspaceBytes,
  };
}

}  // namespace warptune
