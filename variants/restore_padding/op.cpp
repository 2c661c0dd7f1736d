// The op restore_padding.
#include "kernels/restore_padding/args.h"
#include "variants/helpers/lengths.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op restore_padding() {
  return {
      .name = "restore_padding",
      .summary = "pads packed rows again, with zeros",
      .dims = {work_dim({"batch", "sequences"}), {"max_q_len", "padded length"}, {"hidden", "row length"}},
      .check = [](const Problem& p) { check_row_count(p, false); },
      .tensors =
          [](const Problem& p, std::uint64_t seed) {
            const auto starts = starts_of(uneven_lengths(p["batch"], p["max_q_len"], seed));
            return std::vector<TensorSpec>{
                activation("x", p.dtype, {starts.back(), p["hidden"]}),
                given_ints("cu_seqlens", {p["batch"] + 1}, starts),
                activation("y", p.dtype, {p["batch"], p["max_q_len"], p["hidden"]}, Role::output),
            };
          },
      .fields = {field("x", &RestorePaddingArgs::x), field("cu_seqlens", &RestorePaddingArgs::cu_seqlens),
                 field("y", &RestorePaddingArgs::y), field("batch", &RestorePaddingArgs::batch),
                 field("max_q_len", &RestorePaddingArgs::max_q_len)},
      .cost =
          [](const Problem& p) {
            const double rows = packed_tokens(p) + p["batch"] * p["max_q_len"];
            return Cost{.bytes = rows * p["hidden"] * size_of(p.dtype) + 4.0 * (p["batch"] + 1)};
          },
      .units = [](const Problem& p) { return p["batch"] * p["max_q_len"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const Values starts = in["cu_seqlens"];
            const std::int64_t hidden = p["hidden"], sequence = row / p["max_q_len"],
                               from = starts[sequence] + row % p["max_q_len"];
            const bool is_padding = from >= starts[sequence + 1];
            out.put("y", row * hidden,
                    is_padding ? std::vector<double>(hidden) : row_of(in["x"], from, hidden));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
