// attention_decode by cuDNN.
#include "attention_decode/args.h"
#include "attention_decode/attention_decode.h"
#include "vendor/cudnn_attention.h"
#include "vendor/plain.h"

namespace warptune {

std::vector<Variant> attention_decode_cudnn() {
  auto constraints = plain_problems(attention_decode());
  constraints.push_back("uneven == 0 && append == 0 && k_layout == 0 && head_dim % 8 == 0");
  return {{
      .name = "cudnn",
      .idea = "cuDNN's attention, one query per sequence; the heuristic's plans in its order",
      .parameters = {{"plan", {0, 1, 2, 3}, "index among the heuristic's plans"}},
      .constraints = std::move(constraints),
      .dtypes = {DType::fp16, DType::bf16},
      .vendor = [](const Problem& p, const Config& c) -> VendorFunction {
        const CudnnAttentionShape shape{.dtype = p.dtype,
                                        .batch = p["batch"],
                                        .q_heads = p["q_heads"],
                                        .kv_heads = p["kv_heads"],
                                        .q_len = 1,
                                        .kv_len = p["context"],
                                        .head_dim = p["head_dim"],
                                        .lengths = true};
        const std::int64_t capacity = attention_decode().tensors(p, 0)[1].shape[2];
        return [attention = std::make_shared<CudnnAttention>(shape, capacity, c["plan"])](const void* raw,
                                                                                          void* stream) {
          const auto& a = *static_cast<const AttentionDecodeArgs*>(raw);
          attention->run({.q = a.q, .k = a.k_cache, .v = a.v_cache, .out = a.out, .lengths = a.lengths},
                         a.capacity, a.workspace, stream);
        };
      },
      .workspace_bytes = [](const Problem&, const Config&) { return CudnnAttention::kWorkspaceBytes; },
  }};
}

}  // namespace warptune
