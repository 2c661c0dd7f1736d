// How embedding runs on the GPU: an index of ideas in rising difficulty. No variant has a pdl parameter: it
// is the first kernel of a decode step and must begin after the step before
// (kernels/attention_decode/kv_pipeline.cuh).
#include "variants/embedding/embedding.h"
#include "variants/helpers/streaming.h"

namespace warptune {

std::vector<Variant> embedding_cuda() {
  std::vector<std::string> constraints = vec_constraints("hidden");
  constraints.insert(constraints.end(),
                     {"block * unroll <= 2048", "unroll == 1 || block * vec * unroll <= tokens * hidden",
                      "store == 0 || tokens >= 256"});
  return {
      {
          .name = "naive",
          .idea = "block per token, one element at a time",
          .parameters = {block_parameter()},
          .stages = {{"embedding/naive.cu", "embedding_naive<{dtype}, {vocab}, {hidden}, {block}>",
                      [](const Problem& p, const Config& c) { return row_launch(p["tokens"], c); }}},
      },
      {
          .name = "vectorized",
          .idea = "rows as one run of wide pieces, several loads in flight per thread",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), store_parameter()},
          .constraints = constraints,
          .stages = {{"embedding/vectorized.cu",
                      "embedding_vectorized<{dtype}, {vocab}, {hidden}, {block}, {unroll}, {vec}, {store}>",
                      [](const Problem& p, const Config& c) {
                        return flat_launch(p["tokens"], p["hidden"], c);
                      }}},
      },
  };
}

}  // namespace warptune
