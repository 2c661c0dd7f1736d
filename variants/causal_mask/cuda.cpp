// CUDA variants of causal_mask, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> causal_mask_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block per query writes elements one by one.",
          .parameters = {block_parameter()},
          .stages = {{.file = "causal_mask/naive.cu",
                      .kernel = "causal_mask_naive<{dtype}, {max_q_len}, {max_k_len}, {block}>",
                      .geometry = row_launch("batch * max_q_len")}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized stores: the mask as one run of vectors, several per thread.",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter()},
          .constraints = vec_constraints(
              "max_k_len", {"block * unroll <= 2048",
                            "unroll == 1 || block * vec * unroll <= batch * max_q_len * max_k_len"}),
          .stages = {{.file = "causal_mask/vectorized.cu",
                      .kernel = "causal_mask_vectorized<{dtype}, {max_q_len}, {max_k_len}, {block}, "
                                "{unroll}, {vec}, {cache_hint}>",
                      .geometry = vector_launch("batch * max_q_len", "max_k_len")}},
      },
  };
}

}  // namespace warptune
