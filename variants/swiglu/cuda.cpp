// How swiglu runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/swiglu/swiglu.h"

namespace warptune {

std::vector<Variant> swiglu_cuda() {
  std::vector<std::string> constraints = vec_constraints("intermediate");
  constraints.insert(constraints.end(), {"block * unroll <= 2048",
                                         "unroll == 1 || block * vec * unroll <= tokens * intermediate",
                                         "store == 0 || tokens >= 256", "pdl == 0 || arch >= 90"});
  const auto launch = [](const Problem& p, const Config& c) {
    return flat_launch(p["tokens"], p["intermediate"], c);
  };
  return {
      {
          .name = "naive",
          .idea = "thread per element",
          .parameters = {block_parameter()},
          .stages = {{"swiglu/naive.cu", "swiglu_naive<{dtype}, {intermediate}, {block}>", launch}},
      },
      {
          .name = "vectorized",
          .idea = "wide pieces, gate and up of several of them in flight per thread",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), store_parameter(true),
                         pdl_parameter()},
          .constraints = constraints,
          .stages = {{"swiglu/vectorized.cu",
                      "swiglu_vectorized<{dtype}, {intermediate}, {block}, {unroll}, {vec}, {store}>",
                      launch}},
      },
  };
}

}  // namespace warptune
