// The op embedding. Input ids are uniform over the vocabulary and legal.
#include <cmath>

#include "kernels/embedding/args.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op embedding() {
  return {
      .name = "embedding",
      .summary = "y[t] = table[ids[t]]",
      .dims = {work_dim({"tokens", "rows"}), {"vocab", "rows of the table"}, {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            std::vector<std::int32_t> ids(p["tokens"]);
            for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = random_bits(seed, t) % p["vocab"];
            return std::vector<TensorSpec>{
                given_ints("ids", {p["tokens"]}, std::move(ids)),
                {.name = "table", .dtype = p.dtype, .shape = {p["vocab"], p["hidden"]}},
                activation("y", p.dtype, {p["tokens"], p["hidden"]}, Role::output),
                given_ints("bad_token", {1}, {0}, Role::inout),
            };
          },
      .fields = {field("ids", &EmbeddingArgs::ids), field("table", &EmbeddingArgs::table),
                 field("y", &EmbeddingArgs::y), field("bad_token", &EmbeddingArgs::bad_token),
                 field("tokens", &EmbeddingArgs::tokens)},
      .cost =
          [](const Problem& p) {
            // The expected number of distinct rows of the table for uniform ids.
            const double tokens = p["tokens"], vocab = p["vocab"],
                         rows = vocab * -std::expm1(tokens * std::log1p(-1 / vocab));
            return Cost{.bytes =
                            (std::min(rows, tokens) + tokens) * p["hidden"] * size_of(p.dtype) + 4 * tokens};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const std::int64_t hidden = p["hidden"], id = in["ids"][token];
            out.put("y", token * hidden, row_of(in["table"], id, hidden));
            if (token == 0) out.put("bad_token", 0, {0});
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
