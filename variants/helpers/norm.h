#pragma once
// The CUDA variants of rms_norm and add_rms_norm: the same kernels, with and without a residual add.
#include <fmt/format.h>

#include "variants/helpers/streaming.h"

namespace warptune {

/// `op`: the kernels' names begin with it. `max_elements`: elements of several rows that a thread of
/// `vectorized` may hold.
inline std::vector<Variant> norm_variants(const std::string& op, int max_elements) {
  return {
      {
          .name = "naive",
          .idea = "One block per token reads elements one by one, the row twice.",
          .parameters = {block_parameter()},
          .stages = {{.file = "rms_norm/naive.cu",
                      .kernel = op + "_naive<{dtype}, {hidden}, {block}>",
                      .geometry = row_launch("tokens")}},
      },
      {
          .name = "vectorized",
          .idea =
              "Vectorized loads, one pass: rows stay in registers; one block reduction for several tokens.",
          .parameters = {block_parameter(),
                         {"rows", {1, 2, 4, 8}, "tokens per block"},
                         vec_parameter(),
                         cache_hint_parameter(true),
                         pdl_parameter()},
          .constraints = vec_constraints(
              "hidden",
              {"rows == 1 || rows <= tokens", "cache_hint == none || tokens >= 256", kPdlConstraint,
               "block * vec <= 2 * hidden || block == 64",
               fmt::format("rows == 1 ? hidden <= 64 * block : rows * max(hidden, block * vec) <= {} * block",
                           max_elements)}),
          .stages = {{.file = "rms_norm/vectorized.cu",
                      .kernel = op + "_vectorized<{dtype}, {hidden}, {block}, {rows}, {vec}, {cache_hint}>",
                      .geometry = row_launch("ceil_div(tokens, rows)", "pdl")}},
      },
      {
          .name = "warp_per_row",
          .idea = "One warp per token, reductions by shuffles only, no barrier.",
          .parameters = {{"rows", {1, 2, 4, 8, 16}, "tokens per block"},
                         vec_parameter(),
                         cache_hint_parameter(),
                         pdl_parameter()},
          .constraints = vec_constraints(
              "hidden", {"rows == 1 || rows <= tokens", "cache_hint == none || tokens >= 256", kPdlConstraint,
                         "rows <= 8 || hidden * dtype_bytes <= 4096"}),  // otherwise registers spill
          .stages =
              {{.file = "rms_norm/warp_per_row.cu",
                .kernel = op + "_warp_per_row<{dtype}, {hidden}, {rows}, {vec}, {cache_hint}>",
                .geometry = {.grid = {"ceil_div(tokens, rows)"}, .block = {"32 * rows"}, .pdl = "pdl"}}},
      },
  };
}

}  // namespace warptune
