// How add_rms_norm runs on the GPU: an index of ideas in rising difficulty.
#include "add_rms_norm/add_rms_norm.h"
#include "common/streaming.h"

namespace warptune {

std::vector<Variant> add_rms_norm_cuda() {
  std::vector<std::string> vectorized = vec_constraints("hidden"), warp_per_row = vectorized;
  const auto both = {"rows == 1 || rows <= tokens", "store == 0 || tokens >= 256", "pdl == 0 || arch >= 90"};
  vectorized.insert(vectorized.end(), both.begin(), both.end());
  vectorized.insert(vectorized.end(),
                    {"block * vec <= 2 * hidden || block == 64",
                     "rows == 1 ? hidden <= 64 * block : rows * max(hidden, block * vec) <= 32 * block"});
  warp_per_row.insert(warp_per_row.end(), both.begin(), both.end());
  warp_per_row.push_back("rows <= 8 || hidden * dtype_bytes <= 4096");  // else registers spill
  return {
      {
          .name = "naive",
          .idea = "block per token, one element at a time, sum read back",
          .parameters = {block_parameter()},
          .stages = {{"add_rms_norm/naive.cu", "add_rms_norm_naive<{dtype}, {hidden}, {block}>",
                      [](const Problem& p, const Config& c) { return row_launch(p["tokens"], c); }}},
      },
      {
          .name = "vectorized",
          .idea = "wide loads, sums kept in registers, block reduce",
          .parameters = {block_parameter(),
                         {"rows", {1, 2, 4, 8}, "tokens per block"},
                         vec_parameter(),
                         store_parameter(true),
                         pdl_parameter()},
          .constraints = vectorized,
          .stages = {{"add_rms_norm/vectorized.cu",
                      "add_rms_norm_vectorized<{dtype}, {hidden}, {block}, {rows}, {vec}, {store}>",
                      [](const Problem& p, const Config& c) {
                        return row_launch(ceil_div(p["tokens"], c["rows"]), c);
                      }}},
      },
      {
          .name = "warp_per_row",
          .idea = "warp per token, sum kept in registers, shuffles only",
          .parameters = {{"rows", {1, 2, 4, 8, 16}, "tokens per block"},
                         vec_parameter(),
                         store_parameter(),
                         pdl_parameter()},
          .constraints = warp_per_row,
          .stages = {{"add_rms_norm/warp_per_row.cu",
                      "add_rms_norm_warp_per_row<{dtype}, {hidden}, {rows}, {vec}, {store}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {blocks_for(p["tokens"], c["rows"])},
                                      .block = {static_cast<unsigned>(32 * c["rows"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
      },
  };
}

}  // namespace warptune
