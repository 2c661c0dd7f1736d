// The op embedding. Input ids are uniform over the vocabulary and legal.
#include <cmath>

#include "kernels/embedding/args.h"
#include "variants/ops.h"

namespace warptune {

Op embedding() {
  return {
      .name = "embedding",
      .summary = "y[t] = table[ids[t]]",
      .dims = {work_dim({"tokens", "rows"}), {"vocab", "rows of the table"}, {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            std::vector<std::int32_t> ids(static_cast<std::size_t>(p["tokens"]));
            for (std::size_t t = 0; t < ids.size(); ++t)
              ids[t] =
                  static_cast<std::int32_t>(random_bits(seed, t) % static_cast<std::uint64_t>(p["vocab"]));
            return std::vector<TensorSpec>{
                {.name = "ids",
                 .dtype = DType::int32,
                 .shape = {p["tokens"]},
                 .cache = CacheState::hot,
                 .values = std::move(ids)},
                {.name = "table", .dtype = p.dtype, .shape = {p["vocab"], p["hidden"]}},
                {.name = "y",
                 .dtype = p.dtype,
                 .shape = {p["tokens"], p["hidden"]},
                 .role = Role::output,
                 .cache = CacheState::hot},
                {.name = "bad_token",
                 .dtype = DType::int32,
                 .shape = {1},
                 .role = Role::inout,
                 .cache = CacheState::hot,
                 .values = {0}},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(EmbeddingArgs{.ids = static_cast<const int*>(t[0]),
                                      .table = t[1],
                                      .y = t[2],
                                      .bad_token = static_cast<int*>(t[3]),
                                      .tokens = static_cast<int>(p["tokens"])});
          },
      .fields = {field("ids", &EmbeddingArgs::ids), field("table", &EmbeddingArgs::table),
                 field("y", &EmbeddingArgs::y), field("bad_token", &EmbeddingArgs::bad_token),
                 field("tokens", &EmbeddingArgs::tokens)},
      .cost =
          [](const Problem& p) {
            // The expected number of distinct rows of the table for uniform ids.
            const double tokens = static_cast<double>(p["tokens"]), vocab = static_cast<double>(p["vocab"]),
                         rows = vocab * -std::expm1(tokens * std::log1p(-1 / vocab));
            return Cost{.bytes = (std::min(rows, tokens) + tokens) * static_cast<double>(p["hidden"]) *
                                     static_cast<double>(size_of(p.dtype)) +
                                 4 * tokens};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const std::int64_t hidden = p["hidden"];
            const Values table = in["table"];
            const auto id = static_cast<std::int64_t>(in["ids"][token]);
            std::vector<double> y(static_cast<std::size_t>(hidden));
            for (std::int64_t i = 0; i < hidden; ++i) y[static_cast<std::size_t>(i)] = table[id * hidden + i];
            out.put("y", token * hidden, std::move(y));
            if (token == 0) out.put("bad_token", 0, {0});
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
