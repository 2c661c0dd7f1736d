// The variant of attention_prefill by cuDNN.
#include "kernels/attention_prefill/args.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/vendor/cudnn_variant.h"

namespace warptune {

std::vector<Variant> attention_prefill_cudnn() {
  return {cudnn_variant<AttentionPrefillArgs>(
      attention_prefill(), "cuDNN scaled dot-product attention, an execution plan of its heuristic",
      // With more queries than keys and the mask at the bottom right, the first queries see none.
      "!uneven && causal != offset && (causal != yes || q_len <= kv_len)",
      [](const Problem& p) {
        return CudnnAttentionShape{.dtype = p.dtype,
                                   .batch = p["batch"],
                                   .q_heads = p["q_heads"],
                                   .kv_heads = p["kv_heads"],
                                   .q_len = p["q_len"],
                                   .kv_len = p["kv_len"],
                                   .head_dim = p["head_dim"],
                                   .causal = static_cast<CausalMask>(p["causal"])};
      },
      [](const AttentionPrefillArgs&) { return nullptr; })};
}

}  // namespace warptune
