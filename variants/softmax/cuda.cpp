// CUDA variants of softmax, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/softmax/softmax.h"

namespace warptune {

std::vector<Variant> softmax_cuda() {
  const auto launch = [](const Problem& p, const Config& c) {
    return row_launch(p["batch"] * p["q_heads"] * p["q_len"], c);
  };
  std::vector<std::string> constraints = vec_constraints("kv_len");
  constraints.insert(constraints.end(), {"kv_len <= 64 * block", "block == 32 || block < 2 * kv_len",
                                         "rows == 1 || (block == 32 && rows <= batch * q_heads * q_len)"});
  return {
      {
          .name = "naive",
          .idea = "One block per row reads elements one by one, the row three times.",
          .parameters = {block_parameter()},
          .stages = {{"softmax/naive.cu",
                      "softmax_naive<{dtype}, {q_heads}, {q_len}, {kv_len}, {mask}, {block}>", launch}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized loads, one pass: the row stays in registers between maximum, sum and result.",
          .parameters = {{"block", {32, 64, 128, 256, 512, 1024}, "threads per row"},
                         {"rows", {1, 2, 4, 8}, "rows per block"},
                         vec_parameter(),
                         cache_hint_parameter()},
          .constraints = constraints,
          .stages =
              {{"softmax/vectorized.cu",
                "softmax_vectorized<{dtype}, {q_heads}, {q_len}, {kv_len}, {mask}, {block}, {rows}, {vec}, "
                "{cache_hint}>",
                [](const Problem& p, const Config& c) {
                  return Launch{.grid = {blocks_for(p["batch"] * p["q_heads"] * p["q_len"], c["rows"])},
                                .block = {as_unsigned(c["block"] * c["rows"])}};
                }}},
      },
  };
}

}  // namespace warptune
