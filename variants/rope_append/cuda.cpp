// CUDA variants of rope_append, in rising difficulty.
#include <utility>

#include "kernels/common/near_positions.h"
#include "variants/helpers/streaming.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {

std::vector<Variant> rope_append_cuda() {
  const Parameter block{"block", {64, 128, 256, 512}, "threads per block"};
  const std::string fixed =
      "<{dtype}, warptune::KvCache<{dtype}, {kv_heads}, {head_dim}, {k_layout} == 1, {kv_dtype}, "
      "{page_size}>, {q_heads}, {kv_heads}, {head_dim}, {rotary}, {style} == 1, {scaling} == 2, {bias} == 1, "
      "{far} == 1, {qk_norm} == 1, {block}";
  const std::vector<DerivedValue> rotation = {
      {"rotary", "rotary_dim == 0 ? head_dim : rotary_dim", "leading elements of a head that rotate"},
      {"far", kRopeCapacity > kNearPositions, "whether angles are reduced in fp64"}};
  std::vector<DerivedValue> vectors = rotation;
  vectors.insert(
      vectors.end(),
      {{"pairs", "style == interleaved ? 1 : 2", "vectors of a pair"},
       // rope_vec_width() of kernels/rope_append/vec_width.h.
       {"width", "gcd(vec, rotary / pairs, (head_dim - rotary) / pairs)", "elements per vectorized access"},
       {"groups", "ceil_div(q_heads + 2 * kv_heads, heads_per_thread)", "groups of heads"}});
  return {
      {
          .name = "naive",
          .idea = "One thread per pair of a head reads elements one by one.",
          .parameters = {block},
          .derived = rotation,
          .stages = {{.file = "rope_append/naive.cu",
                      .kernel = "rope_append_naive" + fixed + ">",
                      .geometry = element_launch("tokens * (q_heads + 2 * kv_heads) * (head_dim // 2)")}},
      },
      {
          .name = "vectorized",
          .idea = "Vectorized accesses; a thread computes its angles once for several heads.",
          .parameters = {block,
                         {"vec", {4, 8}, "elements per vectorized access, at most"},
                         {"heads_per_thread", {1, 2, 4, 8}, "heads per thread"},
                         cache_hint_parameter(),
                         pdl_parameter()},
          .derived = std::move(vectors),
          .constraints = {"vec * dtype_bytes <= 16",
                          "heads_per_thread <= q_heads + 2 * kv_heads || heads_per_thread == 1",
                          kPdlConstraint,
                          // The threads of a normalized head or a quantized row reduce by shuffles: a power
                          // of two in one warp.
                          "(kv_dtype == same && qk_norm == no) || (4096 % head_dim == 0 && head_dim <= 32 * "
                          "vec && rotary_dim % (2 "
                          "* vec) == 0)"},
          .stages = {{.file = "rope_append/vectorized.cu",
                      .kernel = "rope_append_vectorized" + fixed +
                                ", {vec}, {heads_per_thread}, {cache_hint} == 1>",
                      .geometry = {.grid = {"ceil_div(tokens * groups * (head_dim / pairs / width), block)"},
                                   .block = {"block"},
                                   .pdl = "pdl"}}},
      },
  };
}

}  // namespace warptune
