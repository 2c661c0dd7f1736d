// How rope_append runs on the GPU: an index of ideas in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/rope_append/rope_append.h"

namespace warptune {

std::vector<Variant> rope_append_cuda() {
  const Parameter block{"block", {64, 128, 256, 512}, "threads per block"};
  const std::string fixed =
      "<{dtype}, warptune::RowCache<{dtype}, {kv_heads}, {head_dim}, {k_layout} == 1, {kv_dtype}, "
      "{page_size}>, {q_heads}, {kv_heads}, {head_dim}, {style} == 1, {scaling} == 2, {bias} == 1, {block}";
  return {
      {
          .name = "naive",
          .idea = "thread per pair of a head, one element at a time",
          .parameters = {block},
          .stages = {{"rope_append/naive.cu", "rope_append_naive" + fixed + ">",
                      [](const Problem& p, const Config& c) {
                        const auto heads = p["q_heads"] + 2 * p["kv_heads"];
                        return Launch{
                            .grid = {blocks_for(p["tokens"] * heads * (p["head_dim"] / 2), c["block"])},
                            .block = {static_cast<unsigned>(c["block"])}};
                      }}},
      },
      {
          .name = "vectorized",
          .idea = "wide accesses, angles in registers for several heads",
          .parameters = {block,
                         {"vec", {4, 8}, "elements per access"},
                         {"heads", {1, 2, 4, 8}, "heads per thread"},
                         {"stream", {0, 1}, "loads and stores that leave the caches first"},
                         pdl_parameter()},
          .constraints = {"vec * dtype_bytes <= 16", "heads <= q_heads + 2 * kv_heads || heads == 1",
                          "pdl == 0 || arch >= 90",
                          // The threads of a row that is quantised are a power of two, in one warp.
                          "kv_dtype == 0 || (4096 % head_dim == 0 && head_dim <= 32 * vec)"},
          .stages = {{"rope_append/vectorized.cu",
                      "rope_append_vectorized" + fixed + ", {vec}, {heads}, {stream} == 1>",
                      [](const Problem& p, const Config& c) {
                        const auto half = p["head_dim"] / 2;
                        const auto whole = p["style"] == 1 ? p["head_dim"] : half;  // an access lies in it
                        auto vec = c["vec"];
                        while (whole % vec != 0) vec /= 2;
                        const auto pieces = whole / vec;
                        const auto groups = ceil_div(p["q_heads"] + 2 * p["kv_heads"], c["heads"]);
                        return Launch{.grid = {blocks_for(p["tokens"] * groups * pieces, c["block"])},
                                      .block = {static_cast<unsigned>(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
      },
  };
}

}  // namespace warptune
