// CUDA variants of top_k, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/ops.h"

namespace warptune {
namespace {

/// The candidates of a row are in the shared memory of a block.
const std::string kFewCandidates = "k <= 256", kManyCandidates = "k > 256";

}  // namespace

std::vector<Variant> top_k_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block per row finds the largest remaining logit k times.",
          .parameters = {{"block", {128, 256, 512, 1024}, "threads per block"}},
          .constraints = {kFewCandidates},
          .stages = {{.file = "top_k/naive.cu",
                      .kernel = "top_k_naive<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, {block}>",
                      .geometry = row_launch("batch")}},
      },
      {
          .name = "vectorized",
          .idea = "Radix select: several blocks per row keep their k largest; the last block selects from "
                  "these and samples.",
          .parameters = {{"block", {128, 256, 512}, "threads per block"},
                         {"blocks_per_row", {1, 2, 4, 8, 16, 32, 64}, "blocks per row"},
                         pdl_parameter()},
          .derived = {{"list_offset", "256 * ceil_div(4 * batch, 256)",
                       "bytes of the counters; the candidates follow them in the workspace"}},
          // The keys of a block and the candidates of all blocks must fit the registers of one block.
          .constraints =
              {kFewCandidates,
               "vocab * dtype_bytes <= 64 * block * blocks_per_row || vocab * dtype_bytes > 524288",
               "vocab <= 32 * block * blocks_per_row", "blocks_per_row * k <= 16 * block",
               "blocks_per_row == 1 || (blocks_per_row - 1) * block < vocab", "batch <= 65535",
               kPdlConstraint},
          .stages = {{.file = "top_k/vectorized.cu",
                      .kernel = "top_k_vectorized<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, "
                                "{block}, {blocks_per_row}, {list_offset}>",
                      .geometry = {.grid = {"blocks_per_row", "batch"}, .block = {"block"}, .pdl = "pdl"}}},
          .workspace = "list_offset + 8 * batch * blocks_per_row * k",
      },
      {
          .name = "radix_search",
          .idea = "Any k: one block per row searches the bits of the sampled key, a read of the row per bit.",
          .parameters = {{"block", {256, 512, 1024}, "threads per block"}},
          .constraints = {kManyCandidates},
          .stages = {{.file = "top_k/radix_search.cu",
                      .kernel =
                          "top_k_radix_search<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, {block}>",
                      .geometry = row_launch("batch")}},
      },
  };
}

}  // namespace warptune
