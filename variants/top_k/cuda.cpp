// CUDA variants of top_k, in rising difficulty.
#include "variants/helpers/streaming.h"
#include "variants/top_k/top_k.h"

namespace warptune {
namespace {

/// The candidates of a row are in the shared memory of a block.
const std::string kFewCandidates = "k <= 256", kManyCandidates = "k > 256";

/// Bytes of the counters; the candidates follow them in the workspace.
std::int64_t list_offset(const Problem& p) { return ceil_div(4 * p["batch"], 256) * 256; }

}  // namespace

std::vector<Variant> top_k_cuda() {
  return {
      {
          .name = "naive",
          .idea = "One block per row finds the largest remaining logit k times.",
          .parameters = {{"block", {128, 256, 512, 1024}, "threads per block"}},
          .constraints = {kFewCandidates},
          .stages = {{"top_k/naive.cu",
                      "top_k_naive<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["batch"])}, .block = {as_unsigned(c["block"])}};
                      }}},
      },
      {
          .name = "vectorized",
          .idea = "Radix select: several blocks per row keep their k largest; the last block selects from "
                  "these and samples.",
          .parameters = {{"block", {128, 256, 512}, "threads per block"},
                         {"blocks_per_row", {1, 2, 4, 8, 16, 32, 64}, "blocks per row"},
                         pdl_parameter()},
          // The keys of a block and the candidates of all blocks must fit the registers of one block.
          .constraints =
              {kFewCandidates,
               "vocab * dtype_bytes <= 64 * block * blocks_per_row || vocab * dtype_bytes > 524288",
               "vocab <= 32 * block * blocks_per_row", "blocks_per_row * k <= 16 * block",
               "blocks_per_row == 1 || (blocks_per_row - 1) * block < vocab", "batch <= 65535",
               kPdlConstraint},
          .stages = {{"top_k/vectorized.cu",
                      "top_k_vectorized<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, {block}, "
                      "{blocks_per_row}, {list_offset}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(c["blocks_per_row"]), as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
          .constants =
              [](const Problem& p, const Config&) {
                return Assignment{{"list_offset", list_offset(p)}};
              },
          .workspace_bytes =
              [](const Problem& p, const Config& c) {
                return list_offset(p) + 8 * p["batch"] * c["blocks_per_row"] * p["k"];
              },
      },
      {
          .name = "radix_search",
          .idea = "Any k: one block per row searches the bits of the sampled key, a read of the row per bit.",
          .parameters = {{"block", {256, 512, 1024}, "threads per block"}},
          .constraints = {kManyCandidates},
          .stages = {{"top_k/radix_search.cu",
                      "top_k_radix_search<{dtype}, {vocab}, {k}, {repetition_penalty}, {min_p}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {static_cast<unsigned>(p["batch"])},
                                      .block = {static_cast<unsigned>(c["block"])}};
                      }}},
      },
  };
}

}  // namespace warptune
