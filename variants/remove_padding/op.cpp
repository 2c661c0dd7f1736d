// The op remove_padding.
#include "kernels/remove_padding/args.h"
#include "variants/helpers/lengths.h"
#include "variants/ops.h"

namespace warptune {

Op remove_padding() {
  return {
      .name = "remove_padding",
      .summary = "packs padded rows: y[t] = x[t + padding_offset[t]]",
      .dims = {work_dim({"batch", "sequences"}), {"max_q_len", "padded length"}, {"hidden", "row length"}},
      .check = [](const Problem& p) { check_row_count(p, true); },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const auto lengths = uneven_lengths(p["batch"], p["max_q_len"], seed);
            const auto starts = starts_of(lengths);
            std::vector<std::int32_t> offsets;
            for (std::size_t b = 0; b < lengths.size(); ++b)
              offsets.insert(
                  offsets.end(), static_cast<std::size_t>(lengths[b]),
                  static_cast<std::int32_t>(b) * static_cast<std::int32_t>(p["max_q_len"]) - starts[b]);
            const std::int64_t tokens = starts.back();
            return std::vector<TensorSpec>{
                {.name = "x",
                 .dtype = p.dtype,
                 .shape = {p["batch"] * p["max_q_len"], p["hidden"]},
                 .cache = CacheState::hot},
                {.name = "padding_offset",
                 .dtype = DType::int32,
                 .shape = {tokens},
                 .cache = CacheState::hot,
                 .values = std::move(offsets)},
                {.name = "y",
                 .dtype = p.dtype,
                 .shape = {tokens, p["hidden"]},
                 .role = Role::output,
                 .cache = CacheState::hot},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(
                RemovePaddingArgs{.x = t[0],
                                  .padding_offset = static_cast<const int*>(t[1]),
                                  .y = t[2],
                                  .tokens = static_cast<int>(packed_tokens(p["batch"], p["max_q_len"]))});
          },
      .fields = {field("x", &RemovePaddingArgs::x),
                 field("padding_offset", &RemovePaddingArgs::padding_offset),
                 field("y", &RemovePaddingArgs::y), field("tokens", &RemovePaddingArgs::tokens)},
      .cost =
          [](const Problem& p) {
            const auto tokens = static_cast<double>(packed_tokens(p["batch"], p["max_q_len"]));
            return Cost{.bytes = tokens * (4 + 2 * static_cast<double>(p["hidden"]) *
                                                   static_cast<double>(size_of(p.dtype)))};
          },
      .units = [](const Problem& p) { return packed_tokens(p["batch"], p["max_q_len"]); },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const Values x = in["x"];
            const std::int64_t hidden = p["hidden"],
                               from = token + static_cast<std::int64_t>(in["padding_offset"][token]);
            std::vector<double> y(static_cast<std::size_t>(hidden));
            for (std::int64_t i = 0; i < hidden; ++i) y[static_cast<std::size_t>(i)] = x[from * hidden + i];
            out.put("y", token * hidden, std::move(y));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
