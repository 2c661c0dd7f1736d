// CUDA variants of rope_append, in rising difficulty.
#include "kernels/common/near_positions.h"
#include "kernels/rope_append/vec_width.h"
#include "variants/helpers/streaming.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {

std::vector<Variant> rope_append_cuda() {
  const Parameter block{"block", {64, 128, 256, 512}, "threads per block"};
  const std::string fixed =
      "<{dtype}, warptune::KvCache<{dtype}, {kv_heads}, {head_dim}, {k_layout} == 1, {kv_dtype}, "
      "{page_size}>, {q_heads}, {kv_heads}, {head_dim}, {rotary}, {style} == 1, {scaling} == 2, {bias} == 1, "
      "{far} == 1, {block}";
  const auto rotation = [](const Problem& p, const Config&) {
    return Assignment{{"rotary", rotary_dim(p)}, {"far", rope_capacity(p) > kNearPositions}};
  };
  return {
      {
          .name = "naive",
          .idea = "One thread per pair of a head reads elements one by one.",
          .parameters = {block},
          .stages = {{.file = "rope_append/naive.cu",
                      .kernel = "rope_append_naive" + fixed + ">",
                      .geometry = element_launch("tokens * (q_heads + 2 * kv_heads) * (head_dim // 2)")}},
          .constants = rotation,
      },
      {
          .name = "vectorized",
          .idea = "Vectorized accesses; a thread computes its angles once for several heads.",
          .parameters = {block,
                         {"vec", {4, 8}, "elements per vectorized access, at most"},
                         {"heads_per_thread", {1, 2, 4, 8}, "heads per thread"},
                         cache_hint_parameter(),
                         pdl_parameter()},
          .constraints =
              {"vec * dtype_bytes <= 16",
               "heads_per_thread <= q_heads + 2 * kv_heads || heads_per_thread == 1", kPdlConstraint,
               // The threads of a quantized row reduce by shuffles: a power of two in one warp.
               "kv_dtype == same || (4096 % head_dim == 0 && head_dim <= 32 * vec && rotary_dim % (2 "
               "* vec) == 0)"},
          .stages = {{"rope_append/vectorized.cu",
                      "rope_append_vectorized" + fixed + ", {vec}, {heads_per_thread}, {cache_hint} == 1>",
                      [](const Problem& p, const Config& c) {
                        const bool interleaved = p["style"] == 1;
                        const auto length = interleaved ? p["head_dim"] : p["head_dim"] / 2;
                        const auto vectors =
                            length / rope_vec_width(static_cast<int>(c["vec"]),
                                                    static_cast<int>(p["head_dim"]),
                                                    static_cast<int>(rotary_dim(p)), interleaved);
                        const auto groups = ceil_div(p["q_heads"] + 2 * p["kv_heads"], c["heads_per_thread"]);
                        return Launch{.grid = {blocks_for(p["tokens"] * groups * vectors, c["block"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
          .constants = rotation,
      },
  };
}

}  // namespace warptune
