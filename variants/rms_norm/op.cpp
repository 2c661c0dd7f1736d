// The op rms_norm. Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#include "kernels/rms_norm/args.h"
#include "variants/helpers/normalize.h"
#include "variants/helpers/specs.h"
#include "variants/ops.h"

namespace warptune {

Op rms_norm() {
  return {
      .name = "rms_norm",
      .summary = "y = x * weight / sqrt(mean(x^2) + eps) over rows",
      .dims = {work_dim({"tokens", "rows"}), {"hidden", "row length"}},
      .tensors =
          [](const Problem& p, std::uint64_t) {
            const std::vector<std::int64_t> rows = {p["tokens"], p["hidden"]};
            return std::vector{activation("x", p.dtype, rows),
                               TensorSpec{.name = "weight", .dtype = p.dtype, .shape = {p["hidden"]}},
                               activation("y", p.dtype, rows, Role::output)};
          },
      .fields = {field("x", &RmsNormArgs::x), field("weight", &RmsNormArgs::weight),
                 field("y", &RmsNormArgs::y), field("tokens", &RmsNormArgs::tokens),
                 field("eps", &RmsNormArgs::eps, kRmsNormEps)},
      .cost =
          [](const Problem& p) {
            const double n = p["tokens"] * p["hidden"], b = size_of(p.dtype);
            return Cost{.bytes = 2 * n * b + p["hidden"] * b, .flops = 4 * n};
          },
      .units = [](const Problem& p) { return p["tokens"]; },
      .reference =
          [](const Problem& p, const Inputs& in, std::int64_t token, Expected& out) {
            const std::int64_t hidden = p["hidden"];
            out.put("y", token * hidden, normalized_row(row_of(in["x"], token, hidden), in["weight"]));
          },
      .tolerance = [](const Problem& p) { return with_long_sum(default_tolerance(p.dtype), p["hidden"]); },
  };
}

}  // namespace warptune
