// How causal_mask runs on the GPU: an index of ideas in rising difficulty.
#include "variants/causal_mask/causal_mask.h"
#include "variants/helpers/streaming.h"

namespace warptune {

std::vector<Variant> causal_mask_cuda() {
  std::vector<std::string> constraints = vec_constraints("max_k_len");
  constraints.insert(
      constraints.end(),
      {"block * unroll <= 2048", "unroll == 1 || block * vec * unroll <= batch * max_q_len * max_k_len"});
  return {
      {
          .name = "naive",
          .idea = "block per query, one element at a time",
          .parameters = {block_parameter()},
          .stages = {{"causal_mask/naive.cu", "causal_mask_naive<{dtype}, {max_q_len}, {max_k_len}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return row_launch(p["batch"] * p["max_q_len"], c);
                      }}},
      },
      {
          .name = "vectorized",
          .idea = "mask as one run of wide pieces, several per thread",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), store_parameter()},
          .constraints = constraints,
          .stages = {{"causal_mask/vectorized.cu",
                      "causal_mask_vectorized<{dtype}, {max_q_len}, {max_k_len}, {block}, {unroll}, {vec}, "
                      "{store}>",
                      [](const Problem& p, const Config& c) {
                        return flat_launch(p["batch"] * p["max_q_len"], p["max_k_len"], c);
                      }}},
      },
  };
}

}  // namespace warptune
