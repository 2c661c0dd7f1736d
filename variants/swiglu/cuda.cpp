// CUDA variants of swiglu, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/swiglu/swiglu.h"

namespace warptune {

std::vector<Variant> swiglu_cuda() {
  std::vector<std::string> constraints = vec_constraints("intermediate");
  constraints.insert(constraints.end(), {"block * unroll <= 2048",
                                         "unroll == 1 || block * vec * unroll <= tokens * intermediate",
                                         "cache_hint == 0 || tokens >= 256", kPdlConstraint});
  const auto launch = [](const Problem& p, const Config& c) {
    return flat_launch(p["tokens"], p["intermediate"], c);
  };
  return {
      {
          .name = "naive",
          .idea = "One thread per element.",
          .parameters = {block_parameter()},
          .stages = {{"swiglu/naive.cu", "swiglu_naive<{dtype}, {intermediate}, {block}>", launch}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized loads, several vectors of gate and up in flight per thread.",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter(true),
                         pdl_parameter()},
          .constraints = constraints,
          .stages = {{"swiglu/vectorized.cu",
                      "swiglu_vectorized<{dtype}, {intermediate}, {block}, {unroll}, {vec}, {cache_hint}>",
                      launch}},
      },
  };
}

}  // namespace warptune
