// CUDA variants of swiglu, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> swiglu_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One thread per element.",
          .parameters = {block_parameter()},
          .stages = {{.file = "swiglu/naive.cu",
                      .kernel = "swiglu_naive<{dtype}, {intermediate}, {block}>",
                      .geometry = element_launch("tokens * intermediate")}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized loads, several vectors of gate and up in flight per thread.",
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter(true),
                         pdl_parameter()},
          .constraints =
              vec_constraints("intermediate", {"block * unroll <= 2048",
                                               "unroll == 1 || block * vec * unroll <= tokens * intermediate",
                                               "cache_hint == none || tokens >= 256", kPdlConstraint}),
          .stages =
              {{.file = "swiglu/vectorized.cu",
                .kernel =
                    "swiglu_vectorized<{dtype}, {intermediate}, {block}, {unroll}, {vec}, {cache_hint}>",
                .geometry = vector_launch("tokens", "intermediate", "pdl")}},
      },
  };
}

}  // namespace warptune
