// CUDA variants of causal_mask, in rising difficulty.
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
          .idea = "One block per query writes elements one by one.",
          .parameters = {block_parameter()},
          .stages = {{"causal_mask/naive.cu", "causal_mask_naive<{dtype}, {max_q_len}, {max_k_len}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return row_launch(p["batch"] * p["max_q_len"], c);
                      }}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized stores: the mask as one run of vectors, several per thread.",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter()},
          .constraints = constraints,
          .stages = {{"causal_mask/vectorized.cu",
                      "causal_mask_vectorized<{dtype}, {max_q_len}, {max_k_len}, {block}, {unroll}, {vec}, "
                      "{cache_hint}>",
                      [](const Problem& p, const Config& c) {
                        return flat_launch(p["batch"] * p["max_q_len"], p["max_k_len"], c);
                      }}},
      },
  };
}

}  // namespace warptune
