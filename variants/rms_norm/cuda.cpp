// How rms_norm runs on the GPU: an index of ideas in rising difficulty.
#include "rms_norm/rms_norm.h"

namespace warptune {

std::vector<Variant> rms_norm_cuda() {
  const auto block_per_token = [](const Problem& p, const Config& c) {
    return Launch{.grid = {blocks_for(p["tokens"], 1)},
                  .block = {static_cast<unsigned>(c["block"])},
                  .pdl = c.get("pdl", 0) != 0};
  };
  const Parameter block{"block", {64, 128, 256, 512, 1024}, "threads per block"};
  const Parameter vec{"vec", {2, 4, 8}, "elements per access"};
  const Parameter pdl{"pdl", {0, 1}, "programmatic dependent launch"};
  return {
      {
          .name = "naive",
          .idea = "block per token, one element at a time, row read twice",
          .parameters = {block},
          .stages = {{"rms_norm/naive.cu", "rms_norm_naive<{dtype}, {hidden}, {block}>", block_per_token}},
      },
      {
          .name = "vectorized",
          .idea = "wide loads, row kept in registers, block reduce",
          .parameters = {block, vec, pdl},
          .constraints = {"vec * dtype_bytes <= 16", "block * vec <= 2 * hidden || block == 64",
                          "hidden <= 64 * block", "pdl == 0 || arch >= 90"},
          .stages = {{"rms_norm/vectorized.cu", "rms_norm_vectorized<{dtype}, {hidden}, {block}, {vec}>",
                      block_per_token}},
      },
      {
          .name = "warp_per_row",
          .idea = "warp per token, shuffles only",
          .parameters = {{"rows", {1, 2, 4, 8, 16}, "tokens per block"}, vec, pdl},
          .constraints = {"vec * dtype_bytes <= 16", "rows <= tokens || rows == 1", "pdl == 0 || arch >= 90"},
          .stages = {{"rms_norm/warp_per_row.cu", "rms_norm_warp_per_row<{dtype}, {hidden}, {rows}, {vec}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {blocks_for(p["tokens"], c["rows"])},
                                      .block = {static_cast<unsigned>(32 * c["rows"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
      },
  };
}

}  // namespace warptune
