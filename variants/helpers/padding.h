#pragma once
// The CUDA variants of remove_padding and restore_padding: gathers of rows in opposite directions.
#include "variants/helpers/streaming.h"

namespace warptune {

/// `op` names the kernels. `more`: further template arguments of the vectorized one, with the placeholder
/// {many_rows}: 1 where an int does not count the padded rows.
inline std::vector<Variant> padding_variants(const std::string& op, const std::string& naive_idea,
                                             const std::string& vectorized_idea,
                                             const std::string& more = "") {
  std::vector<std::string> constraints = vec_constraints("hidden");
  constraints.insert(constraints.end(), {"block * unroll <= 2048",
                                         "unroll == 1 || block * vec * unroll <= batch * max_q_len * hidden",
                                         "cache_hint == 0 || batch * max_q_len >= 256"});
  return {
      {
          .name = "naive",
          .idea = naive_idea,
          .parameters = {block_parameter()},
          .stages = {{op + "/naive.cu", op + "_naive<{dtype}, {hidden}, {block}>",
                      [](const Problem& p, const Config& c) {
                        return row_launch(p["batch"] * p["max_q_len"], c);
                      }}},
      },
      {
          .name = "vectorized",
          .idea = vectorized_idea,
          .parameters = {block_parameter(), unroll_parameter(), vec_parameter(), cache_hint_parameter()},
          .constraints = constraints,
          .stages = {{op + "/vectorized.cu",
                      op + "_vectorized<{dtype}, {hidden}, {block}, {unroll}, {vec}, {cache_hint}" + more +
                          ">",
                      [](const Problem& p, const Config& c) {
                        return flat_launch(p["batch"] * p["max_q_len"], p["hidden"], c);
                      }}},
          .constants =
              [](const Problem& p, const Config&) {
                return Assignment{{"many_rows", p["batch"] * p["max_q_len"] > (1ll << 31) - 1}};
              },
      },
  };
}

}  // namespace warptune
