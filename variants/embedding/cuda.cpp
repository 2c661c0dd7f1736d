// CUDA variants of embedding, in rising difficulty. No variant has a pdl parameter: embedding
// is the first kernel of a decode step and starts only after the step before has ended.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> embedding_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block per token copies elements one by one.",
          .parameters = {block_parameter()},
          .stages = {{.file = "embedding/naive.cu",
                      .kernel = "embedding_naive<{dtype}, {vocab}, {hidden}, {block}>",
                      .geometry = row_launch("tokens")}},
      },
      {
          .name = "vectorized",
          .idea = "Gather of rows as one run of vectors, several loads in flight per thread.",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter()},
          .constraints = vec_constraints(
              "hidden", {"block * unroll <= 2048", "unroll == 1 || block * vec * unroll <= tokens * hidden",
                         "cache_hint == none || tokens >= 256"}),
          .stages = {{.file = "embedding/vectorized.cu",
                      .kernel = "embedding_vectorized<{dtype}, {vocab}, {hidden}, {block}, {unroll}, {vec}, "
                                "{cache_hint}>",
                      .geometry = vector_launch("tokens", "hidden")}},
      },
  };
}

}  // namespace warptune
