#pragma once
// The CUDA variants of remove_padding and restore_padding: gathers of rows in opposite directions.
#include "variants/helpers/streaming.h"

namespace warptune {

/// `op` names the kernels. `more`: further template arguments of the vectorized one, with the placeholder
/// {many_rows}: 1 where an int does not count the padded rows.
inline std::vector<Variant> padding_variants(const std::string& op, const std::string& naive_idea,
                                             const std::string& vectorized_idea,
                                             const std::string& more = "") {
  return {
      {
          .name = "naive",
          .idea = naive_idea,
          .parameters = {block_parameter()},
          .stages = {{.file = op + "/naive.cu",
                      .kernel = op + "_naive<{dtype}, {hidden}, {block}>",
                      .geometry = row_launch("batch * max_q_len")}},
      },
      {
          .name = "vectorized",
          .idea = vectorized_idea,
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter()},
          .derived = {{"many_rows", "batch * max_q_len > 2147483647",
                       "whether an int does not count the rows"}},
          .constraints =
              vec_constraints("hidden", {"block * unroll <= 2048",
                                         "unroll == 1 || block * vec * unroll <= batch * max_q_len * hidden",
                                         "cache_hint == none || batch * max_q_len >= 256"}),
          .stages = {{.file = op + "/vectorized.cu",
                      .kernel = op + "_vectorized<{dtype}, {hidden}, {block}, {unroll}, {vec}, {cache_hint}" +
                                more + ">",
                      .geometry = vector_launch("batch * max_q_len", "hidden")}},
      },
  };
}

}  // namespace warptune
