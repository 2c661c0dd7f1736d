// attention_decode by cuDNN.
#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/vendor/cudnn_variant.h"

namespace warptune {

std::vector<Variant> attention_decode_cudnn() {
  return {cudnn_variant<AttentionDecodeArgs>(
      attention_decode(), "cuDNN's attention, one query per sequence; the heuristic's plans in its order",
      "!uneven && !append && k_layout == sd",
      [](const Problem& p) {
        return CudnnAttentionShape{.dtype = p.dtype,
                                   .batch = p["batch"],
                                   .q_heads = p["q_heads"],
                                   .kv_heads = p["kv_heads"],
                                   .q_len = 1,
                                   .kv_len = p["context"],
                                   .head_dim = p["head_dim"],
                                   .has_lengths = true};
      },
      [](const AttentionDecodeArgs& a) { return a.lengths; })};
}

}  // namespace warptune
