// attention_prefill by cuDNN.
#include "attention_prefill/args.h"
#include "attention_prefill/attention_prefill.h"
#include "vendor/cudnn_attention.h"
#include "vendor/plain.h"

namespace warptune {

std::vector<Variant> attention_prefill_cudnn() {
  auto constraints = plain_problems(attention_prefill());
  // With more queries than keys and the mask at the bottom right, the first queries see none.
  constraints.push_back("uneven == 0 && head_dim % 8 == 0 && (causal != 1 || q_len <= kv_len)");
  return {{
      .name = "cudnn",
      .idea = "cuDNN's attention; the heuristic's plans in its order",
      .parameters = {{"plan", {0, 1, 2, 3}, "index among the heuristic's plans"}},
      .constraints = std::move(constraints),
      .dtypes = {DType::fp16, DType::bf16},
      .vendor = [](const Problem& p, const Config& c) -> VendorFunction {
        const CudnnAttentionShape shape{.dtype = p.dtype,
                                        .batch = p["batch"],
                                        .q_heads = p["q_heads"],
                                        .kv_heads = p["kv_heads"],
                                        .q_len = p["q_len"],
                                        .kv_len = p["kv_len"],
                                        .head_dim = p["head_dim"],
                                        .causal = static_cast<CudnnAttentionShape::Causal>(p["causal"])};
        const std::int64_t capacity = attention_prefill().tensors(p, 0)[1].shape[2];
        return [attention = std::make_shared<CudnnAttention>(shape, capacity, c["plan"])](const void* raw,
                                                                                          void* stream) {
          const auto& a = *static_cast<const AttentionPrefillArgs*>(raw);
          attention->run({.q = a.q, .k = a.k_cache, .v = a.v_cache, .out = a.out, .lengths = nullptr},
                         a.capacity, a.workspace, stream);
        };
      },
      .workspace_bytes = [](const Problem&, const Config&) { return CudnnAttention::kWorkspaceBytes; },
  }};
}

}  // namespace warptune
