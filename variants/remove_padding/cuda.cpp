// How remove_padding runs on the GPU: an index of ideas in rising difficulty.
#include "common/streaming.h"
#include "remove_padding/remove_padding.h"

namespace warptune {

std::vector<Variant> remove_padding_cuda() {
  std::vector<std::string> constraints = vec_constraints("hidden");
  constraints.insert(constraints.end(), {"block * unroll <= 2048",
                                         "unroll == 1 || block * vec * unroll <= batch * max_q_len * hidden",
                                         "store == 0 || batch * max_q_len >= 256"});
  return {
      {
          .name = "naive",
          .idea = "block per packed token, one element at a time",
          .parameters = {block_parameter()},
          .stages = {{"remove_padding/naive.cu", "remove_padding_naive<{dtype}, {hidden}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return row_launch(p["batch"] * p["max_q_len"], c);
                      }}},
      },
      {
          .name = "vectorized",
          .idea = "rows as one run of wide pieces, several loads in flight per thread",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), store_parameter()},
          .constraints = constraints,
          .stages = {{"remove_padding/vectorized.cu",
                      "remove_padding_vectorized<{dtype}, {hidden}, {block}, {unroll}, {vec}, {store}>",
                      [](const Problem& p, const Config& c) {
                        return flat_launch(p["batch"] * p["max_q_len"], p["hidden"], c);
                      }}},
      },
  };
}

}  // namespace warptune
