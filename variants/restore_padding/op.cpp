// The op restore_padding.
#include "kernels/restore_padding/args.h"
#include "variants/helpers/lengths.h"
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
                {.name = "x",
                 .dtype = p.dtype,
                 .shape = {starts.back(), p["hidden"]},
                 .cache = CacheState::hot},
                {.name = "cu_seqlens",
                 .dtype = DType::int32,
                 .shape = {p["batch"] + 1},
                 .cache = CacheState::hot,
                 .values = starts},
                {.name = "y",
                 .dtype = p.dtype,
                 .shape = {p["batch"], p["max_q_len"], p["hidden"]},
                 .role = Role::output,
                 .cache = CacheState::hot},
            };
          },
      .bind =
          [](const Problem& p, std::span<void* const> t, void*) {
            return Args(RestorePaddingArgs{.x = t[0],
                                           .cu_seqlens = static_cast<const int*>(t[1]),
                                           .y = t[2],
                                           .batch = static_cast<int>(p["batch"]),
                                           .max_q_len = static_cast<int>(p["max_q_len"])});
          },
      .fields = {field("x", &RestorePaddingArgs::x), field("cu_seqlens", &RestorePaddingArgs::cu_seqlens),
                 field("y", &RestorePaddingArgs::y), field("batch", &RestorePaddingArgs::batch),
                 field("max_q_len", &RestorePaddingArgs::max_q_len)},
      .cost =
          [](const Problem& p) {
            const std::int64_t rows = packed_tokens(p["batch"], p["max_q_len"]) + p["batch"] * p["max_q_len"];
            return Cost{.bytes =
                            static_cast<double>(rows * p["hidden"]) * static_cast<double>(size_of(p.dtype)) +
                            4.0 * static_cast<double>(p["batch"] + 1)};
          },
      .units = [](const Problem& p) { return p["batch"] * p["max_q_len"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t row, Expected& out) {
            const Values x = in["x"], starts = in["cu_seqlens"];
            const std::int64_t hidden = p["hidden"], sequence = row / p["max_q_len"],
                               from = static_cast<std::int64_t>(starts[sequence]) + row % p["max_q_len"];
            std::vector<double> y(static_cast<std::size_t>(hidden));
            if (from < static_cast<std::int64_t>(starts[sequence + 1]))
              for (std::int64_t i = 0; i < hidden; ++i) y[static_cast<std::size_t>(i)] = x[from * hidden + i];
            out.put("y", row * hidden, std::move(y));
          },
      .tolerance = [](const Problem&) { return Tolerance{}; },  // a copy
  };
}

}  // namespace warptune
