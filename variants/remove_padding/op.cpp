// The op remove_padding.
#include "kernels/remove_padding/args.h"
#include "variants/helpers/lengths.h"
#include "variants/helpers/specs.h"
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
              offsets.insert(offsets.end(), lengths[b], b * p["max_q_len"] - starts[b]);
            const std::int64_t tokens = starts.back();
            return std::vector<TensorSpec>{
                activation("x", p.dtype, {p["batch"] * p["max_q_len"], p["hidden"]}),
                given_ints("padding_offset", {tokens}, std::move(offsets)),
                activation("y", p.dtype, {tokens, p["hidden"]}, Role::output),
            };
          },
      .fields = {field("x", &RemovePaddingArgs::x),
                 field("padding_offset", &RemovePaddingArgs::padding_offset),
                 field("y", &RemovePaddingArgs::y),
                 field("tokens", &RemovePaddingArgs::tokens, packed_tokens)},
      .cost =
          [](const Problem& p) {
            return Cost{.bytes = packed_tokens(p) * (4 + 2.0 * p["hidden"] * size_of(p.dtype))};
          },
      .units = packed_tokens,
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const std::int64_t hidden = p["hidden"], from = token + in["padding_offset"][token];
            out.put("y", token * hidden, row_of(in["x"], from, hidden));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
